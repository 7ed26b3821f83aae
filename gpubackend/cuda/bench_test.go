// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
)

// TestCallsDoNotAllocate covers the calls of programs' inner loops.
func TestCallsDoNotAllocate(t *testing.T) {
	d := newDevice(t, Options{})
	p := alloc(t, d, 4096)
	e, r := d.EventCreate(0)
	must(t, "event", r)
	in := make([]byte, 64)
	for name, f := range map[string]func() gpubackend.Result{
		"fill":            func() gpubackend.Result { return d.MemsetD8Async(p, 0, 64, 0) },
		"copy":            func() gpubackend.Result { return d.Copy(p, p+64, 64, 0) },
		"copy in":         func() gpubackend.Result { return d.CopyIn(p, in, 0) },
		"record":          func() gpubackend.Result { return d.EventRecordWithFlags(e, 0, 0) },
		"ask an event":    func() gpubackend.Result { return d.EventQuery(e) },
		"ask a stream":    func() gpubackend.Result { return d.StreamQuery(0) },
		"ask the context": d.ContextQuery,
		"set the context": func() gpubackend.Result { return d.SetCurrent(d.CurrentHandle()) },
	} {
		must(t, name, f())
		if n := testing.AllocsPerRun(100, func() { f() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkLaunch(b *testing.B) {
	d := newDevice(b, Options{})
	l := &gpubackend.Launch{Function: load(b, d, "vector_add"), Grid: [3]uint32{1, 1, 1},
		Block: [3]uint32{1, 1, 1}, Parameters: make([]byte, 28)}
	b.ReportAllocs()
	for b.Loop() {
		d.Launch(l)
	}
}

func BenchmarkLaunchAll(b *testing.B) {
	d := newDevice(b, Options{})
	list := make([]gpubackend.Launch, driver.MaxLaunches)
	for i := range list {
		list[i] = *emptyLaunch(load(b, d, "vector_add"))
		list[i].Parameters = make([]byte, 28)
	}
	b.ReportAllocs()
	for b.Loop() {
		d.LaunchAll(list)
	}
}

func BenchmarkEventRecord(b *testing.B) {
	d := newDevice(b, Options{})
	e, _ := d.EventCreate(0)
	b.ReportAllocs()
	for b.Loop() {
		d.EventRecordWithFlags(e, 0, 0)
	}
}
