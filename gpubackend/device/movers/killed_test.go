// SPDX-License-Identifier: Apache-2.0

package movers

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// TestKilledBeforeItIsThere: who ends all ends also a mover that is about to start, or that starts,
// and of which nobody knows yet. That isn't a failure: who needs one gets the next.
func TestKilledBeforeItIsThere(t *testing.T) {
	v := newVM(t)
	for name, need := range map[string]func() (*Mover, error){
		"about to start": func() (*Mover, error) {
			kills := v.Kills()
			v.Kill()
			return v.Need(start, kills)
		},
		"it starts": func() (*Mover, error) {
			return v.Need(func() (*handover.Message, []int) {
				v.Kill()
				return start()
			}, v.Kills())
		},
	} {
		m, err := need()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !await.Within(soon, m.Exited()) {
			t.Fatalf("%s: it lives", name)
		}
		if again, err := v.Await(m); !again || err != nil {
			t.Errorf("%s: again %v, %v", name, again, err)
		}
		if v.need() == m {
			t.Errorf("%s: one that was killed is given out", name)
		}
		v.End(v.Current())
	}
}
