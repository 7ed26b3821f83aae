// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

func must(t *testing.T, what string, r gpubackend.Result) {
	t.Helper()
	want(t, what, r, gpubackend.Success)
}

func want(t *testing.T, what string, r, wanted gpubackend.Result) {
	t.Helper()
	if r != wanted {
		t.Fatalf("%s: result %d, want %d", what, r, wanted)
	}
}

const code = ".version 6.5\n.target sm_75\n" +
	".visible .entry vector_add() {}\n.visible .entry empty() {}\n\x00"

func load(t *testing.T, d *driver.Driver, name string) gpubackend.Function {
	t.Helper()
	image := cmem.Copied([]byte(code), 16)
	defer image.Free()
	m, r := d.ModuleLoad(image, &driver.Options{})
	must(t, "load", r)
	f, r := d.ModuleGetFunction(m, name)
	must(t, "function", r)
	return f
}

func TestOpenOfOtherLibraries(t *testing.T) {
	for _, test := range []struct{ path, want string }{
		{"/no/such/library.so", "/no/such/library.so"},
		{"libc.so.6", "no function cu"},
	} {
		if _, err := driver.Open(test.path); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.path, err)
		}
	}
}

// TestThreadsAreNotNamed: a driver that names its threads by /proc can write to a file, but no
// thread gets the name.
func TestThreadsAreNotNamed(t *testing.T) {
	drivertest.Open(t)
	name, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/comm", unix.Gettid()))
	if err != nil || strings.Contains(string(name), "fake-cuda") {
		t.Errorf("the thread is named %q, %v", name, err)
	}
}

// touched are the streams that a Driver reports.
type touched []gpubackend.Stream

func (w *touched) Touch(s gpubackend.Stream) { *w = append(*w, s) }

// TestWorkIsReported: each call that gives a stream work is reported, and no other.
func TestWorkIsReported(t *testing.T) {
	d := drivertest.Open(t)
	f := load(t, d, "empty")
	event, r := d.EventCreate(cudaabi.EventDisableTiming)
	must(t, "event", r)
	memory := cmem.Allocate(4096)
	defer memory.Free()
	at := memory.Address()
	must(t, "register", d.MemHostRegister(at, 4096, true))
	defer d.MemHostUnregister(at)
	const s = gpubackend.Stream(2)
	for _, test := range []struct {
		name string
		call func() gpubackend.Result
		want int
	}{
		{"copy", func() gpubackend.Result { return d.MemcpyAsync(at, at+64, 64, s) }, 1},
		{"record", func() gpubackend.Result { return d.EventRecordWithFlags(event, s, 0) }, 1},
		{"wait", func() gpubackend.Result { return d.StreamWaitEvent(s, event, 0) }, 1},
		{"launch", func() gpubackend.Result {
			l := gpubackend.Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
				Stream: s}
			return d.LaunchKernel(&l, nil, nil)
		}, 1},
		{"query", func() gpubackend.Result { return d.StreamQuery(s) }, 0},
		{"announce", func() gpubackend.Result { return d.StreamWriteValue32(s, at, 1) }, 0},
		{"synchronize", func() gpubackend.Result { return d.StreamSynchronize(s) }, 0},
	} {
		var work touched
		d.ReportTo(&work)
		must(t, test.name, test.call())
		d.ReportTo(nil)
		must(t, test.name, test.call())
		if len(work) != test.want || test.want > 0 && work[0] != s {
			t.Errorf("%s: told of %v", test.name, work)
		}
	}
}

// TestPack packs as many launches as there is room for, each with its own parameters.
func TestPack(t *testing.T) {
	d := drivertest.Open(t)
	f := load(t, d, "vector_add")
	launches := func(n, bytes int) []gpubackend.Launch {
		list := make([]gpubackend.Launch, n)
		for i := range list {
			list[i] = gpubackend.Launch{
				Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
				Parameters: filled(i, bytes),
			}
		}
		return list
	}
	for _, test := range []struct{ n, bytes, want int }{
		{5, 28, 5}, {driver.MaxLaunches + 1, 28, driver.MaxLaunches},
		{10, cudaabi.MaxParameterBytes, 8},
		{3, cudaabi.MaxParameterBytes + 1, 0}, {0, 0, 0},
	} {
		list := launches(test.n, test.bytes)
		if n := d.Pack(list); n != test.want {
			t.Fatalf("%d of %d launches with %d bytes of parameters", n, test.n, test.bytes)
		}
		packed, each := d.Packed(), driver.Padded(test.bytes)
		if len(packed) != test.want*each {
			t.Fatalf("%d bytes of parameters, want %d", len(packed), test.want*each)
		}
		for i := range test.want {
			if got := packed[i*each:][:test.bytes]; !bytes.Equal(got, filled(i, test.bytes)) {
				t.Errorf("parameters of launch %d: %x", i, got)
			}
		}
	}
	list := launches(6, 28)
	for i := range list {
		list[i].Parameters = make([]byte, 28)
	}
	list[4].Parameters = make([]byte, 32) // the fake wants 28
	n := d.Pack(list)
	if done, r := d.Submit(n); done != 4 || r != gpubackend.LaunchOutOfResources {
		t.Errorf("%d queued, result %d", done, r)
	}
}

// TestLaunchDevices: each entry gets its own parameters, one by one.
func TestLaunchDevices(t *testing.T) {
	d := drivertest.Open(t)
	memory := cmem.Allocate(64)
	defer memory.Free()
	f := load(t, d, "vector_add")
	list := make([]gpubackend.Launch, 2)
	offsets := make([][]uint32, len(list))
	for i := range list {
		l := gpubackend.Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
		at := memory.Address() + uint64(32*i)
		for _, word := range []uint64{at, at + 4, at + 8} { // two addends, and their sum
			l.Parameters = binary.LittleEndian.AppendUint64(l.Parameters, word)
		}
		l.Parameters = binary.LittleEndian.AppendUint32(l.Parameters, 1)
		for k, number := range []float32{float32(i), 2} {
			binary.LittleEndian.PutUint32(memory.Bytes()[32*i+4*k:], math.Float32bits(number))
		}
		list[i] = l
		var ok bool
		if offsets[i], ok = d.Offsets(f, l.Parameters); !ok {
			t.Fatal("the function has other parameters")
		}
	}
	must(t, "launch", d.LaunchDevices(list, offsets, 3))
	for i := range list {
		sum := math.Float32frombits(binary.LittleEndian.Uint32(memory.Bytes()[32*i+8:]))
		if sum != float32(i)+2 {
			t.Errorf("entry %d: %v", i, sum)
		}
	}
	empty := load(t, d, "empty")
	none := gpubackend.Launch{Function: empty, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
	must(t, "no parameters", d.LaunchDevices([]gpubackend.Launch{none}, [][]uint32{{}}, 0))
	none.Grid[0] = 0
	want(t, "no blocks", d.LaunchDevices([]gpubackend.Launch{none}, [][]uint32{{}}, 0),
		gpubackend.InvalidValue)
	for _, bytes := range []int{0, 27, 29} {
		if _, ok := d.Offsets(f, make([]byte, bytes)); ok {
			t.Errorf("%d bytes are the function's parameters", bytes)
		}
	}
}

func filled(i, n int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, n) }

func TestSeries(t *testing.T) {
	d := drivertest.Open(t)
	if !d.CanMakeSeries() {
		t.Fatal("the driver has no graphs")
	}
	l := gpubackend.Launch{
		Function: load(t, d, "vector_add"), Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
		Parameters: make([]byte, 28),
	}
	list := []gpubackend.Launch{l, l, l}
	d.Pack(list)
	c := d.BuildSeries(len(list))
	if c == nil {
		t.Fatal("no series")
	}
	defer d.FreeSeries(c)
	launches, patches := drivertest.Count("cuGraphLaunch"),
		drivertest.Count("cuGraphExecKernelNodeSetParams_v2")
	must(t, "launch", d.LaunchSeries(c, []byte{0, 1, 0}))
	if n := drivertest.Count("cuGraphLaunch") - launches; n != 1 {
		t.Errorf("%d launches", n)
	}
	if n := drivertest.Count("cuGraphExecKernelNodeSetParams_v2") - patches; n != 1 {
		t.Errorf("%d nodes were patched", n)
	}
}
