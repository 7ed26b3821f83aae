// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"runtime"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/simt"
)

// counting opens a device that may take so much host memory beyond what it takes at the start.
func counting(t *testing.T, bytes uint64) (*Device, *budget.Budget) {
	t.Helper()
	host := budget.New(1 << 40)
	d := newDevice(t, Options{HostMemory: host})
	host.SetLimit(host.Used() + bytes)
	return d, host
}

const recursive = ptxHead + `.func dive(.param .b64 n);
.func dive(.param .b64 n) { .reg .pred p; .reg .b64 a; .param .b64 x;
ld.param.u64 a, [n]; setp.eq.u64 p, a, 0; @p ret;
sub.u64 a, a, 1; st.param.b64 [x], a; call dive, (x); ret; }
.visible .entry go(.param .b64 n) { .reg .b64 a; .param .b64 x;
ld.param.u64 a, [n]; st.param.b64 [x], a; call dive, (x); ret; }
`

// TestRecursionRunsOutOfHostMemory: the context says so, and works again when it was reset.
func TestRecursionRunsOutOfHostMemory(t *testing.T) {
	d, _ := counting(t, 8<<20)
	load := func() gpubackend.Function {
		m, _, _, result := d.ModuleLoadData([]byte(recursive), nil, nil, nil)
		ok(t, result)
		return getFunction(t, d, m, "go")
	}
	start(t, d, load(), 1, 0, params(16000))
	want(t, wait(t, d.ContextQuery), gpubackend.OutOfMemory)
	ok(t, d.DevicePrimaryCtxReset(0))
	start(t, d, load(), 1, 0, params(10))
	ok(t, wait(t, d.ContextQuery))
}

// TestLaunchesThatWaitCount queues launches behind a host function until there is no memory for
// more.
func TestLaunchesThatWaitCount(t *testing.T) {
	d, host := counting(t, 8<<20)
	f := getFunction(t, d, loadFile(t, d, "testdata/small.ptx"), "increment")
	a := alloc(t, d, 4)
	used := host.Used()
	release, result := d.HostFunc(0, 1, func(uint64) {})
	ok(t, result)
	l := &gpubackend.Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
		Parameters: params(a)}
	n := 0
	for result = d.Launch(l); result == gpubackend.Success; result = d.Launch(l) {
		n++
	}
	want(t, result, gpubackend.OutOfMemory)
	if n > 8<<20/scheduler.LaunchBytes || n < 1000 {
		t.Errorf("%d launches wait", n)
	}
	release()
	ok(t, wait(t, d.ContextQuery))
	if host.Used() != used {
		t.Errorf("%d bytes are counted when all is done", host.Used()-used)
	}
	ok(t, d.Launch(l))
}

// TestLaunchWithoutHostMemory is refused at once.
func TestLaunchWithoutHostMemory(t *testing.T) {
	d, host := counting(t, 8<<20)
	f := getFunction(t, d, loadFile(t, d, "testdata/small.ptx"), "increment")
	host.SetLimit(host.Used() + 4096)
	l := &gpubackend.Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1024, 1, 1},
		Parameters: params(0)}
	want(t, d.Launch(l), gpubackend.OutOfMemory)
	ok(t, d.ContextQuery())
}

// TestObjectsCount makes as many of each as there is memory for, and one more when there is more.
func TestObjectsCount(t *testing.T) {
	for _, x := range []struct {
		name string
		make func(d *Device, a uint64) (drop func() gpubackend.Result, result gpubackend.Result)
	}{
		{"textures", func(d *Device, a uint64) (func() gpubackend.Result, gpubackend.Result) {
			n, result := d.TexObjectCreate(linearResource(a, 512),
				make([]byte, cudaabi.TextureDescSize), nil)
			return func() gpubackend.Result { return d.TexObjectDestroy(n) }, result
		}},
		{"links", func(d *Device, _ uint64) (func() gpubackend.Result, gpubackend.Result) {
			l, result := d.LinkCreate(nil, 4096, 4096)
			return func() gpubackend.Result { return d.LinkDestroy(l) }, result
		}},
		{"graphs", func(d *Device, _ uint64) (func() gpubackend.Result, gpubackend.Result) {
			g, result := d.GraphCreate(0)
			return func() gpubackend.Result { return d.GraphDestroy(g) }, result
		}},
		{"memory", func(d *Device, _ uint64) (func() gpubackend.Result, gpubackend.Result) {
			p, result := d.MemAlloc(512)
			return func() gpubackend.Result { return d.MemFree(p) }, result
		}},
		{"output", func(d *Device, _ uint64) (func() gpubackend.Result, gpubackend.Result) {
			set := func(bytes uint64) gpubackend.Result {
				return d.CtxSetLimit(cudaabi.LimitPrintfFIFOSize, bytes)
			}
			return func() gpubackend.Result { return set(1 << 20) }, set(2 << 20)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			d, host := counting(t, 1<<20)
			a := alloc(t, d, 512)
			used := host.Used()
			var drops []func() gpubackend.Result
			for {
				drop, result := x.make(d, a)
				if result != gpubackend.Success {
					want(t, result, gpubackend.OutOfMemory)
					break
				}
				drops = append(drops, drop)
			}
			if x.name == "output" != (len(drops) == 0) || len(drops) > 4096 {
				t.Errorf("%d are there", len(drops))
			}
			for _, drop := range drops {
				ok(t, drop())
			}
			if host.Used() != used {
				t.Errorf("%d bytes are counted when all are gone", host.Used()-used)
			}
			host.SetLimit(used + 16<<20)
			drop, result := x.make(d, a)
			ok(t, result)
			ok(t, drop())
		})
	}
}

// TestLaunchesTakeTurns: kernels run one after the other if there is no memory for all at a time.
func TestLaunchesTakeTurns(t *testing.T) {
	d, host := counting(t, 64<<20)
	f := getFunction(t, d, loadFile(t, d, "testdata/small.ptx"), "increment")
	a := alloc(t, d, 4)
	ok(t, d.MemsetD32Async(a, 0, 1, 0))
	ok(t, wait(t, d.ContextQuery))
	entry, result := d.Function(f)
	ok(t, result)
	// Each launch and its task count until it has run. There is memory for them and two blocks.
	const launches = 200
	host.SetLimit(host.Used() + launches*(4*scheduler.LaunchBytes) + 2*simt.HostBytes(entry.Entry,
		1024,
		0))
	for range launches {
		l := &gpubackend.Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1024, 1, 1},
			Parameters: params(a),
			Stream:     newStream(t, d, cudaabi.StreamNonBlocking)}
		for result = d.Launch(l); result == gpubackend.OutOfMemory; result = d.Launch(l) {
			runtime.Gosched()
		}
		ok(t, result)
	}
	ok(t, wait(t, d.ContextQuery))
}
