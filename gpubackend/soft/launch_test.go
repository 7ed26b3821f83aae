// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

func loadFile(t testing.TB, d *Device, file string) gpubackend.Module {
	t.Helper()
	image, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, _, _, result := d.ModuleLoadData(image, nil, nil, nil)
	ok(t, result)
	return m
}

func getFunction(t testing.TB, d *Device, m gpubackend.Module, name string) gpubackend.Function {
	t.Helper()
	f, result := d.ModuleGetFunction(m, name)
	ok(t, result)
	return f
}

// params packs 64-bit parameters.
func params(values ...uint64) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// start launches one block.
func start(
	t testing.TB, d *Device, f gpubackend.Function, threads uint32, s gpubackend.Stream, p []byte,
) {
	t.Helper()
	ok(t, d.Launch(&gpubackend.Launch{
		Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{threads, 1, 1}, Stream: s,
		Parameters: p,
	}))
}

func TestLaunch(t *testing.T) {
	d := newDevice(t, Options{})
	scale := getFunction(t, d, loadFile(t, d, "testdata/small.ptx"), "scale")
	a := alloc(t, d, 4096)
	ok(t, d.MemsetD32Async(a, 7, 1024, 0))
	ok(t, d.Launch(&gpubackend.Launch{
		Function: scale, Grid: [3]uint32{8, 1, 1}, Block: [3]uint32{128, 1, 1},
		Parameters: append(params(a), 5),
	}))
	synchronize(t, d)
	if got := read(t, d, a, 4096); !bytes.Equal(got, bytes.Repeat(words(26), 1024)) {
		t.Errorf("got %x", got[:16])
	}
}

func TestLaunchChecks(t *testing.T) {
	d := newDevice(t, Options{Multiprocessors: 2})
	m := loadFile(t, d, "testdata/small.ptx")
	a := alloc(t, d, 4096)
	attribute := func(id uint32) cudaabi.LaunchAttribute {
		a := make(cudaabi.LaunchAttribute, cudaabi.LaunchAttributeSize)
		a.SetID(id)
		return a
	}
	cooperative := attribute(cudaabi.LaunchAttributeCooperative)
	cooperative.Value().SetCooperative(1)
	cluster := attribute(cudaabi.LaunchAttributeClusterDimension)
	cluster.Value().SetClusterDimX(2)
	event := attribute(cudaabi.LaunchAttributeProgrammaticEvent)
	unknown := attribute(200)
	priority := attribute(cudaabi.LaunchAttributePriority)
	for _, c := range []struct {
		name, function string
		change         func(*gpubackend.Launch)
		want           gpubackend.Result
	}{
		{"good", "store", func(l *gpubackend.Launch) {}, gpubackend.Success},
		{"empty grid", "store", func(l *gpubackend.Launch) { l.Grid[1] = 0 },
			gpubackend.InvalidValue},
		{"empty block", "store", func(l *gpubackend.Launch) { l.Block[2] = 0 },
			gpubackend.InvalidValue},
		{"grid x", "store", func(l *gpubackend.Launch) { l.Grid[0] = 1 << 31 },
			gpubackend.InvalidValue},
		{"grid y", "store", func(l *gpubackend.Launch) { l.Grid[1] = 65536 },
			gpubackend.InvalidValue},
		{"block x", "store", func(l *gpubackend.Launch) { l.Block[0] = 1025 },
			gpubackend.InvalidValue},
		{"block z", "store", func(l *gpubackend.Launch) { l.Block[2] = 65 },
			gpubackend.InvalidValue},
		{"threads", "store", func(l *gpubackend.Launch) { l.Block = [3]uint32{32, 33, 1} },
			gpubackend.InvalidValue},
		{"above maxntid", "bounded", func(l *gpubackend.Launch) { l.Block[0] = 65 },
			gpubackend.InvalidValue},
		{"maxntid", "bounded", func(l *gpubackend.Launch) { l.Block[0] = 64 }, gpubackend.Success},
		{"not reqntid", "exact", func(l *gpubackend.Launch) { l.Block[0] = 64 },
			gpubackend.InvalidValue},
		{"reqntid", "exact", func(l *gpubackend.Launch) { l.Block = [3]uint32{32, 2, 1} },
			gpubackend.Success},
		{"shared", "shared", func(l *gpubackend.Launch) { l.Shared = 47 << 10 },
			gpubackend.Success},
		{"too much shared", "shared", func(l *gpubackend.Launch) { l.Shared = 47<<10 + 1 },
			gpubackend.InvalidValue},
		{"no parameters", "store", func(l *gpubackend.Launch) { l.Parameters = nil },
			gpubackend.InvalidValue},
		{"many parameters", "store", func(l *gpubackend.Launch) { l.Parameters = params(a, 0) },
			gpubackend.LaunchOutOfResources},
		{"padded parameters", "scale", func(l *gpubackend.Launch) { l.Parameters = params(a, 0) },
			gpubackend.LaunchOutOfResources},
		{"few parameters", "scale", func(l *gpubackend.Launch) { l.Parameters = params(a) },
			gpubackend.Success},
		{"stream", "store", func(l *gpubackend.Launch) { l.Stream = 12345 },
			gpubackend.InvalidHandle},
		{"function", "store", func(l *gpubackend.Launch) { l.Function = 12345 },
			gpubackend.InvalidHandle},
		{"cooperative", "bounded",
			func(l *gpubackend.Launch) { l.Attributes, l.Grid[0] = cooperative, 64 },
			gpubackend.Success},
		{"cooperative, too large", "bounded",
			func(l *gpubackend.Launch) { l.Attributes, l.Grid[0] = cooperative, 65 },
			gpubackend.CooperativeLaunchTooLarge},
		{"cluster", "store", func(l *gpubackend.Launch) { l.Attributes = cluster },
			gpubackend.NotSupported},
		{"event", "store", func(l *gpubackend.Launch) { l.Attributes = event },
			gpubackend.NotSupported},
		{"unknown attribute", "store", func(l *gpubackend.Launch) { l.Attributes = unknown },
			gpubackend.InvalidValue},
		{"cut attribute", "store", func(l *gpubackend.Launch) { l.Attributes = unknown[:8] },
			gpubackend.InvalidValue},
		{"priority", "store", func(l *gpubackend.Launch) { l.Attributes = priority },
			gpubackend.Success},
	} {
		l := gpubackend.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
		l.Function = getFunction(t, d, m, c.function)
		if c.function == "store" || c.function == "shared" {
			l.Parameters = params(a)
		}
		c.change(&l)
		if got := d.Launch(&l); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	synchronize(t, d)
}

func TestSharedMemory(t *testing.T) {
	d := newDevice(t, Options{})
	f := getFunction(t, d, loadFile(t, d, "testdata/small.ptx"), "shared")
	a := alloc(t, d, 4)
	const most = chip.SharedPerBlockOptIn - 1024
	l := gpubackend.Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
		Shared: most}
	l.Parameters = params(a)
	want(t, d.Launch(&l), gpubackend.InvalidValue)
	want(t, d.FuncSetAttribute(f, cudaabi.FuncAttributeMaxDynamicSharedSizeBytes, most+1),
		gpubackend.InvalidValue)
	ok(t, d.FuncSetAttribute(f, cudaabi.FuncAttributeMaxDynamicSharedSizeBytes, most))
	ok(t, d.Launch(&l))
	synchronize(t, d)
	if got := read(t, d, a, 4); got[0] != 11 {
		t.Errorf("got %v", got)
	}
}

func TestKernelsOfAStreamFollowEachOther(t *testing.T) {
	d := newDevice(t, Options{})
	increment := getFunction(t, d, loadFile(t, d, "testdata/small.ptx"), "increment")
	a := alloc(t, d, 4)
	ok(t, d.MemsetD32Async(a, 0, 1, 0))
	// Streams take turns through the legacy stream.
	streams := []gpubackend.Stream{newStream(t, d, 0), 0, newStream(t, d, 0),
		gpubackend.LegacyStream}
	const rounds = 400
	for i := range rounds {
		start(t, d, increment, 1, streams[i%len(streams)], params(a))
	}
	synchronize(t, d)
	if got := binary.LittleEndian.Uint32(read(t, d, a, 4)); got != rounds {
		t.Errorf("%d increments, want %d", got, rounds)
	}
}

func TestStreamsRunSideBySide(t *testing.T) {
	d := newDevice(t, Options{})
	m := loadFile(t, d, "testdata/small.ptx")
	a := alloc(t, d, 4)
	ok(t, d.MemsetD32Async(a, 0, 1, 0))
	synchronize(t, d)
	waiting, other := newStream(t, d, 1), newStream(t, d, 1)
	start(t, d, getFunction(t, d, m, "await"), 1, waiting, params(a))
	want(t, d.StreamQuery(waiting), gpubackend.NotReady)
	start(t, d, getFunction(t, d, m, "store"), 1, other, params(a))
	synchronize(t, d)
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name, file, function string
		parameters           []byte
		want                 gpubackend.Result
	}{
		{"null", "testdata/small.ptx", "store", params(0), gpubackend.IllegalAddress},
		{"misaligned", "testdata/small.ptx", "store", params(1), gpubackend.MisalignedAddress},
		{"assertion", "simt/testdata/flow.ptx", "failing", words(16), gpubackend.Assert},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDevice(t, Options{})
			m := loadFile(t, d, c.file)
			a, e := alloc(t, d, 4), newEvent(t, d)
			if c.name == "misaligned" {
				c.parameters = params(a + 1)
			}
			f := getFunction(t, d, m, c.function)
			start(t, d, f, 32, 0, c.parameters)
			_ = d.EventRecordWithFlags(e, 0, 0) // the error may have been noticed already
			want(t, wait(t, d.ContextQuery), c.want)
			want(t, wait(t, func() gpubackend.Result { return d.StreamQuery(0) }), c.want)
			want(t, d.EventQuery(e), c.want)
			_, result := d.MemAlloc(1)
			want(t, result, c.want)
			want(t, d.MemFree(a), c.want)
			ok(t, d.DevicePrimaryCtxReset(0))
			alloc(t, d, 1)
		})
	}
}

func TestFaultStopsOtherKernels(t *testing.T) {
	d := newDevice(t, Options{})
	m := loadFile(t, d, "testdata/small.ptx")
	a := alloc(t, d, 4)
	ok(t, d.MemsetD32Async(a, 0, 1, 0))
	start(t, d, getFunction(t, d, m, "await"), 1, newStream(t, d, 0), params(a))
	start(t, d, getFunction(t, d, m, "store"), 1, newStream(t, d, 1), params(64))
	want(t, wait(t, d.ContextQuery), gpubackend.IllegalAddress)
	ok(t, d.DevicePrimaryCtxReset(0)) // which waits for both
}

func TestCloseStopsEndlessKernels(t *testing.T) {
	d := newDevice(t, Options{})
	m := loadFile(t, d, "testdata/small.ptx")
	a := alloc(t, d, 4)
	ok(t, d.MemsetD32Async(a, 0, 1, 0))
	start(t, d, getFunction(t, d, m, "await"), 32, 0, params(a))
	d.Close()
	if d.Space() != nil {
		t.Error("a kernel still runs")
	}
}

func TestPrintfAndAssertText(t *testing.T) {
	d := newDevice(t, Options{})
	m := loadFile(t, d, "simt/testdata/flow.ptx")
	text := alloc(t, d, 16)
	ok(t, d.CopyIn(text, []byte("guest\x00"), 0))
	start(t, d, getFunction(t, d, m, "hello"), 2, 0, params(2, text))
	synchronize(t, d)
	const hello = "hello 0 of 2: guest  0.00 x% 123456789abc\n" +
		"hello 1 of 2: guest  0.50 x% 123456789abc\n"
	out := d.Output()
	if len(out) != 1 || out[0].FD != 1 || string(out[0].Text) != hello {
		t.Errorf("got %v", out)
	}
	start(t, d, getFunction(t, d, m, "failing"), 32, 0, words(31))
	want(t, wait(t, d.ContextQuery), gpubackend.Assert)
	out = d.Output()
	if len(out) != 1 || out[0].FD != 2 ||
		!strings.Contains(string(out[0].Text), "thread: [31,0,0] Assertion") {
		t.Errorf("got %v", out)
	}
}

// registeredPage returns the address of a page that kernels may reach.
func registeredPage(t testing.TB, d *Device) uint64 {
	t.Helper()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(page) })
	host := space.AddressOf(page)
	ok(t, d.HostRegister(host, 4096, true))
	return host
}

func TestKernelReadsRegisteredMemory(t *testing.T) {
	d := newDevice(t, Options{})
	m, host := loadFile(t, d, "testdata/small.ptx"), registeredPage(t, d)
	start(t, d, getFunction(t, d, m, "await"), 1, 0, params(host))
	want(t, d.ContextQuery(), gpubackend.NotReady)
	atomic.StoreUint32(wordAt(host), 1) // the host lets the kernel go on
	start(t, d, getFunction(t, d, m, "increment"), 1, 0, params(host))
	synchronize(t, d)
	if got := atomic.LoadUint32(wordAt(host)); got != 2 {
		t.Errorf("got %d", got)
	}
}

func TestHostUnregisterWaitsForKernels(t *testing.T) {
	d := newDevice(t, Options{})
	m, host := loadFile(t, d, "testdata/small.ptx"), registeredPage(t, d)
	start(t, d, getFunction(t, d, m, "meet"), 1, 0, params(host))
	for atomic.LoadUint32(wordAt(host+4)) == 0 {
		runtime.Gosched()
	}
	time.AfterFunc(20*time.Millisecond, func() { atomic.StoreUint32(wordAt(host), 1) })
	ok(t, d.HostUnregister(host, 4096))
	if atomic.LoadUint32(wordAt(host)) == 0 || d.ContextQuery() != gpubackend.Success {
		t.Error("the kernel still runs")
	}
}
