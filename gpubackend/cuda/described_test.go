// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"reflect"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/internal/roomcheck"
)

// TestRoomsAreThoseDescribed: each function is where the description says, but one: what a limit
// takes counts for the VM, so that here limits are a room of their own.
func TestRoomsAreThoseDescribed(t *testing.T) {
	wrong := roomcheck.Misplaced(reflect.TypeFor[Device]())
	if !slices.Equal(wrong, []string{"limits.CtxSetLimit"}) {
		t.Errorf("functions of other rooms: %v", wrong)
	}
}
