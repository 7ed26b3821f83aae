// SPDX-License-Identifier: Apache-2.0

package hostmemory

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/roomtest"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// TestRegister registers and unregisters ranges, of which this process touches none.
func TestRegister(t *testing.T) {
	g := roomtest.New(t, 64<<20)
	x := New(Options{Contexts: g.Contexts, Memory: g.Memory, Scheduler: g.Scheduler})
	base := g.Memory.Space().Base()
	const host = 1 << 30
	for _, c := range []struct {
		name        string
		addr, bytes uint64
		want        gpubackend.Result
	}{
		{"null", 0, 4096, gpubackend.InvalidValue}, {"nothing", host, 0, gpubackend.InvalidValue},
		{"wrapping", host, 1<<64 - 1, gpubackend.InvalidValue},
		{"device memory", base, 4096, gpubackend.InvalidValue},
		{"into device memory", base - 4096, 8192, gpubackend.InvalidValue},
		{"range", host, 8192, gpubackend.Success},
		{"again", host, 8192, gpubackend.HostMemoryAlreadyRegistered},
		{"its end", host + 8191, 2, gpubackend.HostMemoryAlreadyRegistered},
	} {
		if result := x.HostRegister(c.addr, c.bytes, false); result != c.want {
			t.Errorf("%s: result %d, want %d", c.name, result, c.want)
		}
	}
	if !g.Memory.Reaches(host, 8192, false) || g.Memory.Reaches(host, 1, true) {
		t.Error("read-only memory can't be read, or can be written")
	}
	resulttest.Want(t, x.HostUnregister(host, 4096), gpubackend.HostMemoryNotRegistered)
	resulttest.OK(t, x.HostUnregister(host, 8192))
	if g.Memory.Reaches(host, 1, false) {
		t.Error("still reached")
	}
	resulttest.OK(t, x.HostPageable(host, 4096))
	if !g.Memory.Reaches(host, 4096, true) {
		t.Error("ordinary memory isn't reached")
	}
}

// TestUnregisterWaits for work that has begun and may use the range.
func TestUnregisterWaits(t *testing.T) {
	g := roomtest.New(t, 64<<20)
	x := New(Options{Contexts: g.Contexts, Memory: g.Memory, Scheduler: g.Scheduler})
	resulttest.OK(t, x.HostRegister(1<<30, 4096, true))
	began, goOn := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	g.Scheduler.Submit(&scheduler.Task{Class: scheduler.Memory, Run: func() {
		close(began)
		<-goOn
		ended.Store(true)
	}}, nil)
	<-began
	time.AfterFunc(10*time.Millisecond, func() { close(goOn) })
	resulttest.OK(t, x.HostUnregister(1<<30, 4096))
	if !ended.Load() {
		t.Error("the work goes on")
	}
}
