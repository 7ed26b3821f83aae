// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"errors"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

const gives, takes = gpubackend.AccessReadWrite, gpubackend.AccessNone

// accesses gives a GPU a pool of another's, or takes it back.
func (r *rig) accesses(device, of, access uint64) gpubackend.Result {
	c := call.New(nil)
	a := command.PoolAccess{Device: device, Of: of, Access: access}
	return r.giveAccess(&c, a, func(*call.Call) gpubackend.Result {
		return r.driver.PoolAccess(device, of, access)
	})
}

// TestAccess: the device is told of a GPU's first and last pool of another one, in the next worker,
// too, which has what was given and no more.
func TestAccess(t *testing.T) {
	r, _ := newRig(t, 1<<30)
	for i, x := range []struct {
		device, of, access uint64
		want               gpubackend.Result
	}{
		{1, 0, takes, gpubackend.InvalidValue},
		{1, 0, gives, gpubackend.Success},
		{1, 0, gives, gpubackend.Success},
		{0, 1, takes, gpubackend.InvalidValue},
		{2, 0, gives, gpubackend.Success},
		{4, 0, gives, gpubackend.InvalidDevice},
		{4, 0, takes, gpubackend.InvalidValue},
		{2, 0, takes, gpubackend.Success},
		{2, 0, takes, gpubackend.InvalidValue},
	} {
		if result := r.accesses(x.device, x.of, x.access); result != x.want {
			t.Errorf("%d: result %d, want %d", i, result, x.want)
		}
	}
	want := []command.PoolAccess{{Device: 1, Access: gives}, {Device: 2, Access: gives},
		{Device: 2, Access: takes}}
	if !slices.Equal(r.driver.access, want) {
		t.Errorf("the device was told %+v", r.driver.access)
	}
	s := r.saved(t)
	next, err := again(t, &s)
	if err != nil || !slices.Equal(next.saved(t).Access, s.Access) {
		t.Fatalf("%v; %+v, want %+v", err, next.access, s.Access)
	}
	for _, left := range []int{1, 2} { // it is told of the last one alone
		if r := next.accesses(1, 0, takes); r != gpubackend.Success ||
			len(next.driver.access) != left {
			t.Errorf("result %d; the next device was told %+v", r, next.driver.access)
		}
	}
}

// TestDamagedAccess: what no Pools can have saved is refused.
func TestDamagedAccess(t *testing.T) {
	for name, list := range map[string][]SavedReach{
		"never":     {{1, 0, 0}},
		"twice":     {{1, 0, 1}, {0, 1, 1}, {1, 0, 1}},
		"no GPU":    {{1, 9, 1}},
		"none":      {{1 << 63, 0, 1}},
		"the same":  {{2, 2, 1}},
		"the first": {{0, 1, 0}, {1, 0, 3}},
	} {
		r, _ := newRig(t, 1<<30)
		s := r.saved(t)
		s.Access = list
		_, err := again(t, &s)
		if !errors.Is(err, errSaved) && !errors.Is(err, gpubackend.InvalidDevice.Err()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
