// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

const testGPU = 5

// newLedger makes a page that stays mapped until all tests have ended: a device's goroutines may
// look at it.
func newLedger(t testing.TB) *ledger.Page {
	t.Helper()
	page, err := ledger.New()
	if err != nil {
		t.Fatal(err)
	}
	pages.Lock()
	defer pages.Unlock()
	pages.all = append(pages.all, page)
	return page
}

var pages struct {
	sync.Mutex
	all []*ledger.Page
}

// closing are tests after which the pages are unmapped, when no goroutine is there any more.
type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	for end := time.Now().Add(soon); goleak.Find() != nil; {
		if time.Now().After(end) {
			return code
		}
	}
	for _, page := range pages.all {
		page.Close()
	}
	return code
}

// TestBoundIsLive: it holds for all processes as soon as it is set, and no guarantee is above it.
func TestBoundIsLive(t *testing.T) {
	page := newLedger(t)
	d := New(Config{GPU: "cuda", Settings: settings.Default(), Ledger: page, Log: quiet()})
	for _, test := range []struct {
		set   string
		ok    bool
		bound uint64
	}{
		{"memory-guarantee=9G", true, 0}, {"memory=8G", false, 0}, {"memory=10G", true, 10 << 30},
		{"memory-guarantee=11G", false, 10 << 30}, {"memory=0", true, 0},
	} {
		if err := d.Set(test.set); (err == nil) != test.ok || page.Bound() != test.bound {
			t.Errorf("%s: %v, bound %d", test.set, err, page.Bound())
		}
	}
}

// TestHostMemoryOfTheVM: its bound is live, what a program has counts, and is given back when its
// worker was killed.
func TestHostMemoryOfTheVM(t *testing.T) {
	page := newLedger(t)
	v := newVMOf(t, Config{Spawn: &processes{}, Ledger: page}, "vm-host-memory=30G")
	v.hello()
	if page.HostBound() != 30<<30 || page.HostTaken() != 0 {
		t.Errorf("a bound of %d, %d taken", page.HostBound(), page.HostTaken())
	}
	if err := v.dev.Set("vm-host-memory=40G"); err != nil || page.HostBound() != 40<<30 {
		t.Errorf("%v, a bound of %d", err, page.HostBound())
	}
	v.program(0)
	if r := v.retain(0, 2); r != gpubackend.Success || page.HostTaken() == 0 {
		t.Errorf("%v, %d bytes taken", r, page.HostTaken())
	}
	w := v.worker(0)
	w.Kill()
	<-w.Gone()
	if page.HostTaken() != 0 {
		t.Errorf("%d bytes taken when nobody has any", page.HostTaken())
	}
}

// inLedger is what the ledger has in sum.
func inLedger(page *ledger.Page) (sum uint64) {
	for _, g := range page.Known() {
		sum += g.Taken()
	}
	return sum
}

// awaitTaken waits until the ledger has so much.
func (v *vm) awaitTaken(page *ledger.Page, want uint64) {
	v.t.Helper()
	for end := time.Now().Add(soon); inLedger(page) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			v.t.Fatalf("%d bytes are taken, want %d", inLedger(page), want)
		}
	}
}

// retain has a channel's program make the primary context.
func (v *vm) retain(channel int, seq uint32) gpubackend.Result {
	v.t.Helper()
	r, err := v.call(channel, gpubackend.OpDevicePrimaryCtxRetain, seq, 0)
	if err != nil {
		v.t.Fatal(err)
	}
	v.context = v.word(0)
	return r
}

// aContext is what one counts for on the software GPU.
const aContext = 8 << 20

// TestProcessesShareTheBound: the contexts of some exhaust what others may have, in this VM alone,
// and a worker that is killed gives back what its program had.
func TestProcessesShareTheBound(t *testing.T) {
	page, other := newLedger(t), newLedger(t)
	neighbour := newVMOf(t, Config{Spawn: &processes{}, Ledger: other}, "memory=40M")
	neighbour.hello()
	v := newVMOf(t, Config{Spawn: &processes{}, Ledger: page}, "memory=20M")
	v.hello()
	for channel := range 2 {
		v.arena = v.guest.Alloc(arenaBytes, 4096) // not one in which the others look for commands
		v.program(channel)
		if r := v.retain(channel, 2); r != gpubackend.Success {
			t.Fatalf("context %d: %v", channel, r)
		}
	}
	v.arena = v.guest.Alloc(arenaBytes, 4096)
	v.program(2)
	if r := v.retain(2, 2); r != gpubackend.OutOfMemory || inLedger(page) != 2*aContext {
		t.Errorf("one context too many: %v, %d bytes are taken", r, inLedger(page))
	}
	neighbour.program(0)
	if r := neighbour.retain(0, 2); r != gpubackend.Success {
		t.Errorf("the other VM's context: %v", r)
	}
	neighbour.mustCall(0, gpubackend.OpMemAlloc, 3, 20<<20)
	if inLedger(other) != aContext+20<<20 {
		t.Errorf("the other VM has %d bytes", inLedger(other))
	}
	f := v.dev.Figures()
	if f.Memory["contexts"] != 2*aContext || len(f.Processes) != 3 ||
		f.Processes[0].Memory["contexts"] != aContext || f.Processes[2].Memory["contexts"] != 0 {
		t.Errorf("the arbiter is told %+v", f)
	}
	h := page.Known()[0].Holding(v.entry(1))
	if h.PID != 9 || h.Kinds[ledger.Contexts] != aContext {
		t.Errorf("the second program has %+v", h)
	}
	v.endWorker(1)
	v.awaitTaken(page, aContext)
	if err := v.dev.Set("memory=40M"); err != nil {
		t.Fatal(err)
	}
	if r := v.retain(2, 3); r != gpubackend.Success {
		t.Errorf("a context when another is gone: %v", r)
	}
	v.mustCall(2, gpubackend.OpMemAlloc, 4, 20<<20)
	v.closeChannel(2)
	v.awaitTaken(page, aContext)
}

// TestWarmWorkersJoin: what they have before they serve a program moves to where that counts.
func TestWarmWorkersJoin(t *testing.T) {
	page := newLedger(t)
	v := newVMOf(t, Config{Spawn: &processes{}, Ledger: page}, "warm-workers=1", "memory=40M")
	v.hello()
	v.warmWorkers(1)
	v.program(0)
	if r := v.retain(0, 2); r != gpubackend.Success || inLedger(page) != aContext {
		t.Errorf("%v, %d bytes are taken", r, inLedger(page))
	}
	v.starts(1, 1)
	v.endWorker(0)
	v.awaitTaken(page, 0)
}

// TestLiarEnds: the driver has more for a program than its VM may have, and than it took.
func TestLiarEnds(t *testing.T) {
	page := newLedger(t)
	driver := &fakeDriver{}
	v := newVMOf(t, Config{
		Spawn: &processes{}, Ledger: page, Usage: driver.ask, AuditPause: time.Millisecond,
	}, "memory=40M")
	v.hello()
	v.program(0)
	v.program(1)
	liar, honest := v.worker(1), v.worker(0)
	driver.has(pidOf(liar), 40<<20+toleranceSoft)
	driver.has(pidOf(honest), 0)
	driver.wait(5)
	if await.Closed(liar.Gone()) || inLedger(page) < 40<<20 {
		t.Fatalf("within the tolerance: gone %t, %d bytes are taken",
			await.Closed(liar.Gone()), inLedger(page))
	}
	driver.has(pidOf(liar), 40<<20+toleranceSoft+1)
	if !await.Within(soon, liar.Gone()) {
		t.Fatal("it lives")
	}
	driver.wait(5)
	if await.Closed(honest.Gone()) {
		t.Error("another one ended, too")
	}
	v.awaitTaken(page, 0)
}

// TestDriverThatSaysNothing is told of once.
func TestDriverThatSaysNothing(t *testing.T) {
	driver := &fakeDriver{fails: errors.New("no library")}
	v := newVMOf(t, Config{
		Spawn: &processes{}, Ledger: newLedger(t), Usage: driver.ask, AuditPause: time.Millisecond,
	})
	log := v.listen()
	v.hello()
	v.program(0)
	driver.wait(5)
	if n := strings.Count(log.String(), "say how much memory"); n != 1 {
		t.Errorf("it is told %d times", n)
	}
}

// TestHostilePage: a worker writes to the ledger what it likes. The device goes on, and the bound
// holds.
func TestHostilePage(t *testing.T) {
	page := newLedger(t)
	v := newVMOf(t, Config{
		Spawn: &processes{}, Ledger: page, Usage: (&fakeDriver{}).ask, AuditPause: time.Millisecond,
	}, "memory=20M")
	v.hello()
	v.program(0)
	if r := v.retain(0, 2); r != gpubackend.Success {
		t.Fatal(r)
	}
	mine, err := unix.Mmap(page.FD(), 0, 4096*20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mine) }()
	for _, fill := range []byte{0xff, 0, 0x5a} {
		for i := range mine {
			mine[i] = fill
		}
		if list := v.dev.figures.Owner().Programs; len(list) != 1 {
			t.Errorf("%d programs", len(list))
		}
	}
	v.endWorker(0)
	for end := time.Now().Add(soon); page.Bound() != 20<<20; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the bound is %d", page.Bound())
		}
	}
}

// TestMemoryOfStats tells of the VM and of its programs, by kind.
func TestMemoryOfStats(t *testing.T) {
	page := newLedger(t)
	v := newVMOf(t, Config{Spawn: &processes{}, Ledger: page}, "memory=60M")
	v.hello()
	v.program(0)
	v.retain(0, 2)
	v.mustCall(0, gpubackend.OpMemAlloc, 3, 10<<20)
	a := v.dev.figures.Owner()
	memory, programs := a.Memory, a.Programs
	want := map[string]uint64{"contexts": aContext, "window": 10 << 20}
	if len(memory) != 1 || memory[0].Bound != 60<<20 || memory[0].Used != aContext+10<<20 ||
		!maps.Equal(memory[0].Kinds, want) {
		t.Errorf("%+v", memory)
	}
	if len(programs) != 1 || !maps.Equal(programs[0].Memory, want) {
		t.Errorf("%+v", programs)
	}
}

// TestProcessesAreBounded: no more than the owner allows, from when he says so.
func TestProcessesAreBounded(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.open(0)
	open := wire.ControlRequest{Type: wire.ControlOpen, Channel: 1, Pid: 9}
	for _, test := range []struct {
		set  string
		want uint32
	}{{"processes=1", wire.StatusBusy}, {"processes=2", wire.StatusOk}} {
		if err := v.dev.Set(test.set); err != nil {
			t.Fatal(err)
		}
		v.status(test.want, open)
	}
}

// fakeDriver is a GPU's driver that says what it is told.
type fakeDriver struct {
	mu    sync.Mutex
	bytes map[int]uint64
	asked int
	fails error
}

func (f *fakeDriver) GPUs() []uint64 { return []uint64{testGPU} }

func (f *fakeDriver) Used(gpu uint64, pid int) (uint64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	bytes, ok := f.bytes[pid]
	return bytes, ok && gpu == testGPU
}

func (f *fakeDriver) ask([]int) (ledger.Usage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f, f.fails
}

func (f *fakeDriver) has(pid int, bytes uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bytes == nil {
		f.bytes = map[int]uint64{}
	}
	f.bytes[pid] = bytes
}

// wait waits until it was asked so often again.
func (f *fakeDriver) wait(times int) {
	asked := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.asked
	}
	for until := asked() + times; asked() < until; {
		time.Sleep(time.Millisecond)
	}
}

func pidOf(w *workers.Worker) int {
	pid, _ := w.PID()
	return pid
}

// entry is where a channel's worker counts.
func (v *vm) entry(channel int) int {
	v.t.Helper()
	entry, counts := v.dev.accounts.Entry(v.worker(channel))
	if !counts {
		v.t.Fatal("it counts nowhere")
	}
	return entry
}
