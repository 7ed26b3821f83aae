// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// TestMostChannels runs a program in a VM with the greatest number of channels. User Mode Linux has
// one queue too few for the last channel, and says so.
func TestMostChannels(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		r := vm.run(t, vm.limit, "--console", "--set", fmt.Sprint("channels=", wire.MaxChannels),
			"--", filepath.Join(programs, follower))
		if r.exit != 0 {
			t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
		}
		for _, trouble := range []string{"WARNING:", "Call Trace", "no 65 queues"} {
			if strings.Contains(r.stderr, trouble) {
				t.Errorf("the guest's kernel says %q:%s", trouble, tail(r.stderr))
			}
		}
		const bound = "63 channels of 64 are used: User Mode Linux has 64 queues at most"
		if said := strings.Contains(r.stderr, bound); said != (vm.name == "uml") {
			t.Errorf("%s says %q: %v, want %v", vm.name, bound, said, !said)
		}
	})
}
