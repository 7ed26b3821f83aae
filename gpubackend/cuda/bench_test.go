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
	for name, f := range map[string]func(){
		"fill":    func() { d.MemsetD8Async(p, 0, 64, 0) },
		"copy":    func() { d.Copy(p, p+64, 64, 0) },
		"copy in": func() { d.CopyIn(p, in, 0) },
		"record":  func() { d.EventRecordWithFlags(e, 0, 0) },
		"query":   func() { d.EventQuery(e); d.StreamQuery(0); d.ContextQuery() },
		"current": func() { d.SetCurrent(d.CurrentHandle()) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
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
