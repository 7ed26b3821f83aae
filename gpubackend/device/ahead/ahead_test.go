// SPDX-License-Identifier: Apache-2.0

package ahead

import (
	"io"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/accounts"
	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/child/childtest"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/pace"
)

const soon = time.Minute

// rig is what a VM without channels holds. Its workers are fakes.
type rig struct {
	*Ahead
	t        *testing.T
	settings *settings.VM
	used     atomic.Bool
	held     atomic.Bool
	stopped  atomic.Int32 // how often the mover was stopped
	running  await.Crowd
	page     *ledger.Page
}

// worker is one that the GPU's driver can be asked about, and usage the driver's answer.
type worker struct{ *childtest.Child }

const gpuID = 5

func (worker) PID() int { return 7 }

type usage struct{}

func (usage) GPUs() []uint64 { return []uint64{gpuID} }

func (usage) Used(_ uint64, pid int) (uint64, bool) { return 90, pid == worker{}.PID() }

func newRig(t *testing.T, gpu string, set ...string) *rig {
	t.Helper()
	return newRigOf(t, 1, gpu, set...)
}

func newRigOf(t *testing.T, gpus int, gpu string, set ...string) *rig {
	t.Helper()
	r := &rig{t: t}
	s := settings.Default()
	for _, text := range set {
		if err := s.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	text := logrus.New()
	text.SetOutput(io.Discard)
	log := logrus.NewEntry(text)
	guard := func(_ string, f func()) bool { f(); return true }
	run := func(_ string, f func()) { r.running.Go(f) }
	r.settings = settings.NewVM(s, settings.Config{GPU: gpu, Kept: func(string) {},
		Changed: func(before, now *settings.Now) { r.Changed(before, now) }})
	var err error
	if r.page, err = ledger.New(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.page.Close)
	sums := accounts.New(accounts.Config{
		Page: r.page, Ask: func([]int) (ledger.Usage, error) { return usage{}, nil },
		Pause: time.Millisecond, GPUTime: func() uint64 { return 0 }, Log: log,
		Guard: func(_ string, f func()) bool { r.running.Go(f); return true },
	})
	made := workers.New(workers.Config{
		Spawn: func(control *os.File) (child.Process, error) {
			c, err := childtest.Start(control, childtest.Polite)
			return worker{c}, err
		},
		Limits: workers.Limits{Answer: soon, Stop: soon, Exit: soon},
		Began:  func(w *workers.Worker) { sums.Began(w) },
		Said: func(_ *workers.Worker, _ *handover.Message, fds []int) {
			handover.CloseFiles(fds)
		},
		Exited: func(w *workers.Worker) { sums.Ended(w) },
		Ended:  func(w *workers.Worker, err error) { r.Lost(w, err) },
		Guard:  guard, Run: run, Log: log,
	})
	r.Ahead = New(Config{
		GPU: gpu, GPUs: gpus, Settings: r.settings, Workers: made, Accounts: sums,
		Used: r.used.Load, Held: r.held.Load,
		StopMover: func() func() { return func() { r.stopped.Add(1) } },
		Starts:    pace.New(0, 16, pace.Real), Clock: pace.Real,
		Start: soon, Answer: soon, Guard: guard, Run: run, Log: log,
	})
	t.Cleanup(func() {
		r.DriverGone()
		if !await.Within(soon, r.running.Gone()) {
			t.Error("something goes on")
		}
	})
	return r
}

// mustKeep waits until so many workers are ready.
func (r *rig) mustKeep(n int) []*workers.Worker {
	r.t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		all, ready := r.Kept()
		if len(all) == n && ready == n {
			return all
		}
		if time.Now().After(end) {
			r.t.Fatalf("%d workers are kept, %d of them ready, want %d", len(all), ready, n)
		}
	}
}

func (r *rig) set(text string) {
	r.t.Helper()
	if err := r.settings.Set(text); err != nil {
		r.t.Fatal(err)
	}
}

// TestNothingForNobody: a VM without a driver costs no device memory, nor one whose driver has
// gone.
func TestNothingForNobody(t *testing.T) {
	r := newRig(t, "cuda") // by default a real GPU has a warm worker
	r.Refill()
	r.mustKeep(0)
	r.DriverCame()
	r.mustKeep(1)
	r.DriverGone()
	r.mustKeep(0)
	r.Refill()
	r.mustKeep(0)
}

// TestIdle: some time after the last program nothing is held, until the next one begins.
func TestIdle(t *testing.T) {
	r := newRig(t, "soft", "warm-workers=2", "idle-time=1ms")
	r.used.Store(true)
	r.DriverCame()
	r.mustKeep(2)
	r.EndIdle() // a program uses the GPU
	r.mustKeep(2)
	if r.stopped.Load() != 0 {
		t.Fatal("the mover of a VM that is used is stopped")
	}
	r.used.Store(false)
	r.Rested()
	r.mustKeep(0)
	for end := time.Now().Add(soon); r.stopped.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the mover isn't stopped")
		}
	}
	began := r.Begin()
	r.Refill()
	r.EndIdle() // a program begins
	r.mustKeep(2)
	began()
	r.mustKeep(0)
}

// TestOthersThanBefore: settings hold at once, for workers that were started with others, too.
func TestOthersThanBefore(t *testing.T) {
	r := newRig(t, "soft", "warm-workers=1")
	r.DriverCame()
	first := r.mustKeep(1)
	r.set("warm-workers=3")
	all := r.mustKeep(3)
	if all[0] != first[0] {
		t.Error("one was ended for others")
	}
	r.set("batch-commands=7")
	for _, w := range r.mustKeep(3) {
		if slices.Contains(all, w) || w.Policy.BatchCommands != 7 || !w.Ahead {
			t.Errorf("%+v is kept", w.Policy)
		}
	}
	r.set("warm-workers=0")
	r.mustKeep(0)
}

// TestTakenAndPutBack: the oldest is taken, and is the oldest again; but not if it is dead.
func TestTakenAndPutBack(t *testing.T) {
	r := newRig(t, "soft", "warm-workers=2")
	if w := r.Take(0, nil); w != nil {
		t.Fatal("there is one")
	}
	r.DriverCame()
	all := r.mustKeep(2)
	w := r.Take(0, nil)
	if w != all[0] {
		t.Fatal("another one is taken")
	}
	r.PutBack(nil)
	r.PutBack(w)
	if again := r.mustKeep(2); again[0] != w {
		t.Fatal("it isn't the oldest")
	}
	w = r.Take(0, nil)
	w.Kill()
	<-w.Gone()
	r.PutBack(w)
	if kept, _ := r.Kept(); slices.Contains(kept, w) {
		t.Error("a dead worker is kept")
	}
	r.Refill()
	r.mustKeep(2)
}

// TestSuspended: a VM that is suspended keeps none, and gets them again.
func TestSuspended(t *testing.T) {
	r := newRig(t, "soft", "warm-workers=2")
	r.DriverCame()
	r.mustKeep(2)
	r.held.Store(true)
	r.Empty()
	r.mustKeep(0)
	r.Refill()
	r.mustKeep(0)
	r.held.Store(false)
	r.Refill()
	r.mustKeep(2)
}

// TestBound is stronger than the owner's wish, which is told.
func TestBound(t *testing.T) {
	r := newRig(t, "soft", "warm-workers=3")
	kept := func(n int) {
		t.Helper()
		if all, _ := r.Kept(); len(all) != n {
			t.Fatalf("%d warm workers, want %d", len(all), n)
		}
	}
	r.DriverCame()
	kept(3)
	select {
	case <-r.News():
	default:
		t.Error("nobody is told that warm workers are wanted")
	}
	if want, begun := r.Wants(); want != 3 || begun != 0 {
		t.Errorf("%d are wanted, a program began at %d", want, begun)
	}
	for _, n := range []int{1, 0, 2} {
		r.Bound(n)
		kept(n)
	}
	r.Begin()()
	if want, begun := r.Wants(); want != 3 || begun == 0 {
		t.Errorf("%d are wanted, a program began at %d", want, begun)
	}
	r.Bound(Any)
	kept(3)
}

// TestContextsAreMeasured when a worker has said that it is ready.
func TestContextsAreMeasured(t *testing.T) {
	r := newRig(t, "soft", "warm-workers=1")
	r.DriverCame()
	r.mustKeep(1)
	counted := ledger.NewProcess()
	counted.Join(r.page, ledger.Warm)
	if !counted.Account(gpuID).Take(ledger.Contexts, 100) {
		t.Fatal("it takes nothing")
	}
	for end := time.Now().Add(soon); r.page.GPU(gpuID).Context() != 90; {
		if time.Now().After(end) {
			t.Fatalf("a context takes %d", r.page.GPU(gpuID).Context())
		}
		time.Sleep(time.Millisecond)
	}
}

// TestEachGPU has warm workers of its own. A program gets one of the GPU that it says, or one of
// another rather than none.
func TestEachGPU(t *testing.T) {
	r := newRigOf(t, 3, "cuda")
	r.DriverCame()
	homes := func() (list []int) {
		for _, w := range r.mustKeep(3) {
			list = append(list, w.Home)
		}
		return list
	}
	if got := homes(); !slices.Equal(got, []int{0, 1, 2}) {
		t.Fatalf("warm on GPUs %v", got)
	}
	for _, x := range []struct {
		gpu  uint32
		home int
	}{{1, 1}, {2, 2}, {0, 0}, {3, 0}, {1 << 31, 0}, {^uint32(0), 0}} {
		w := r.Take(x.gpu, nil)
		if w == nil || w.Home != x.home {
			t.Fatalf("GPU %d: %+v", x.gpu, w)
		}
		w.Kill()
		r.Refill()
		homes()
	}
	var taken []int
	for range 3 {
		w := r.Take(1, nil)
		taken = append(taken, w.Home)
		w.Kill()
	}
	if !slices.Equal(taken, []int{1, 0, 2}) || r.Take(1, nil) != nil {
		t.Errorf("taken for GPU 1: %v", taken)
	}
	r.Refill()
	homes()
	w := r.Take(2, nil)
	r.PutBack(w)
	if kept := r.mustKeep(3); kept[2] != w {
		t.Error("it is put back elsewhere")
	}
	r.Bound(0)
	r.mustKeep(0)
	r.Bound(1)
	homes()
	r.set("warm-workers=2")
	r.mustKeep(3)
	r.Bound(Any)
	r.mustKeep(6)
}

// TestEachGPUOfFewChannels: all together no more than programs could have, but one of each.
func TestEachGPUOfFewChannels(t *testing.T) {
	r := newRigOf(t, 2, "cuda", "channels=4", "warm-workers=4")
	r.DriverCame()
	r.mustKeep(4)
	r = newRigOf(t, 2, "cuda", "channels=1")
	r.DriverCame()
	r.mustKeep(2)
}
