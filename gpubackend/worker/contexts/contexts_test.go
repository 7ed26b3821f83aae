// SPDX-License-Identifier: Apache-2.0

package contexts

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
)

// fakeDriver remembers what was made current.
type fakeDriver struct {
	set    []gpubackend.Context
	refuse gpubackend.Result
}

func (d *fakeDriver) SetCurrent(c gpubackend.Context) gpubackend.Result {
	d.set = append(d.set, c)
	return d.refuse
}

func TestSet(t *testing.T) {
	var objects object.Table
	d, left := &fakeDriver{}, 0
	c := New(d, &objects, func() { left++ })
	one, event := objects.Add(object.Context, 11, 0), objects.Add(object.Event, 12, 0)
	for i, tt := range []struct {
		handle   uint64
		optional bool
		refuse   gpubackend.Result
		want     gpubackend.Result
		current  uint64
		asked    int
	}{
		{0, true, 0, 0, 0, 0},
		{0, false, 0, gpubackend.InvalidContext, 0, 0},
		{one, false, 0, 0, one, 1},
		{one, false, gpubackend.Unknown, 0, one, 1}, // it is current: the driver isn't asked
		{event, true, 0, gpubackend.InvalidContext, one, 1},
		{77, true, 0, gpubackend.InvalidContext, one, 1},
		{0, true, gpubackend.Unknown, gpubackend.Unknown, one, 2},
		{0, false, 0, gpubackend.InvalidContext, 0, 3},
	} {
		d.refuse = tt.refuse
		if got := c.Set(tt.handle, tt.optional); got != tt.want || c.Current() != tt.current {
			t.Errorf("step %d: %v, %#x is current", i, got, c.Current())
		}
		if len(d.set) != tt.asked || left != tt.asked {
			t.Errorf("step %d: set %d times, left %d times", i, len(d.set), left)
		}
	}
}

func TestGreenContexts(t *testing.T) {
	var objects object.Table
	c := New(&fakeDriver{}, &objects, func() {})
	home, green := objects.Add(object.Context, 1, 0), objects.Add(object.Context, 2, 0)
	c.Retained(0, home)
	c.AddGreen(green, home)
	if got, ok := c.Primary(0); got != home || !ok || c.Home(green) != home ||
		c.Home(home) != home {
		t.Fatalf("primary %#x (%v), home %#x", got, ok, c.Home(green))
	}
	if _, ok := c.Primary(1); ok {
		t.Error("a device that wasn't retained has a primary context")
	}
	c.Set(green, false)
	if c.HomeOfCurrent() != home {
		t.Error("the current context's home")
	}
	c.LeaveGreen()
	if c.Current() != home {
		t.Errorf("%#x is current", c.Current())
	}
	objects.Remove(green)
	var gone []uint64
	c.Sweep(func(h uint64) { gone = append(gone, h) })
	if len(gone) != 1 || gone[0] != green || c.Greens() != 0 {
		t.Errorf("gone: %x, %d are left", gone, c.Greens())
	}
	if c.Ended(home); c.Current() != 0 {
		t.Error("a context that has ended is current")
	}
}
