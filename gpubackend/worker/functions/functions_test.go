// SPDX-License-Identifier: Apache-2.0

package functions

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// fakeDriver has events, and nothing else.
type fakeDriver struct {
	gpubackend.Unsupported
	made, destroyed int
}

func (d *fakeDriver) EventCreate(uint64) (gpubackend.Event, gpubackend.Result) {
	d.made++
	return gpubackend.Event(40 + d.made), gpubackend.Success
}
func (d *fakeDriver) EventDestroy(gpubackend.Event) gpubackend.Result {
	d.destroyed++
	return gpubackend.Success
}

func run(f *Functions, op gpubackend.Op, words ...uint64) ([]uint64, gpubackend.Result) {
	command := &arena.Command{N: len(words)}
	copy(command.Words[:], words)
	c := call.New(&call.Buffers{Copied: func(uint64) {}})
	c.Start(command)
	result := f.Handlers()[op].Run(&c)
	return append([]uint64(nil), c.Answers()...), result
}

// TestObjectsHaveHandlesOfTheGuests: a handle that wasn't given out never reaches the driver, and
// there are only as many objects as there is memory for.
func TestObjectsHaveHandlesOfTheGuests(t *testing.T) {
	var objects object.Table
	d := &fakeDriver{}
	f := New(Config{Driver: d, Objects: &objects,
		Home: func(context uint64) uint64 { return context }})
	answer, result := run(f, gpubackend.OpEventCreate, 0)
	if native, ok := objects.Lookup(object.Event, answer[0]); result != gpubackend.Success || !ok ||
		native != 41 {
		t.Fatalf("handle %x, %v", answer, result)
	}
	for _, forged := range []uint64{41, answer[0] + 1, 0} {
		if _, result := run(f, gpubackend.OpEventDestroy,
			forged); result != gpubackend.InvalidHandle || d.destroyed != 0 {
			t.Errorf("handle %#x: %v, %d destroyed", forged, result, d.destroyed)
		}
	}
	if _, result := run(f, gpubackend.OpEventDestroy, answer[0]); result != gpubackend.Success ||
		objects.Len() != 0 {
		t.Errorf("%v, %d objects are left", result, objects.Len())
	}
	objects.Memory = budget.New(0)
	if _, result := run(f, gpubackend.OpEventCreate, 0); result != gpubackend.OutOfMemory ||
		d.made != 1 {
		t.Errorf("without memory: %v, %d made", result, d.made)
	}
	if _, result := run(f, gpubackend.OpCtxCreate, 1<<31, 0); result != gpubackend.InvalidValue {
		t.Errorf("flags that aren't known: %v", result)
	}
}
