// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"reflect"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/internal/roomcheck"
)

// TestRoomsAreThoseDescribed: each function is in the room that the description says, but one. What
// a limit takes counts for the VM, so limits are a room of their own here.
func TestRoomsAreThoseDescribed(t *testing.T) {
	wrong := roomcheck.Misplaced(reflect.TypeFor[Device]())
	if !slices.Equal(wrong, []string{"limits.CtxSetLimit"}) {
		t.Errorf("functions of other rooms: %v", wrong)
	}
}
