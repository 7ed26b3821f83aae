// SPDX-License-Identifier: Apache-2.0

package accounts

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend/gate"
)

func TestEntries(t *testing.T) {
	var s entries
	for want := range gate.Entries {
		if got, err := s.take(); err != nil || got != want {
			t.Fatalf("entry %d, error %v, want %d", got, err, want)
		}
	}
	if got, err := s.take(); err == nil {
		t.Fatalf("entry %d, of which there are %d", got, gate.Entries)
	}
	s.free(gate.Entries - 1)
	s.free(7)
	for _, want := range []int{7, gate.Entries - 1} {
		if got, err := s.take(); err != nil || got != want {
			t.Errorf("entry %d, error %v, want %d", got, err, want)
		}
	}
}
