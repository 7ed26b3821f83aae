// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"reflect"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/internal/roomcheck"
)

// TestRoomsAreThoseDescribed: each function is where the description says.
func TestRoomsAreThoseDescribed(t *testing.T) {
	if wrong := roomcheck.Misplaced(reflect.TypeFor[Device]()); len(wrong) != 0 {
		t.Errorf("functions of other rooms: %v", wrong)
	}
}
