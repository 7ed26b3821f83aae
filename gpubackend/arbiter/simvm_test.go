// SPDX-License-Identifier: Apache-2.0

package arbiter_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/place"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// Times of simulated VMs.
const (
	unit      = 3 * time.Millisecond   // of work
	stopGrace = 300 * time.Millisecond // that work may take to end
	mostMove  = 800 * time.Millisecond
	stays     = 1 // bytes of a worker that don't move
)

// vm is a VM with its device process, whose workers are simulated, and nothing else.
type vm struct {
	sim        *simulation
	name       string
	dice       *rand.Rand // under mu
	page       *gate.Page
	client     *client.Client
	place      *place.VM
	suspension *suspend.Suspension
	ended      sync.WaitGroup
	quit       chan struct{}

	mu      sync.Mutex
	workers []*worker
	room    uint64
	ran     time.Time // work ended
	wrong   time.Time // since then the arbiter believes something else of its place
}

// draw is a random number below n.
func (v *vm) draw(n int64) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.dice.Int64N(n)
}

// upTo is a random time.
func (v *vm) upTo(d time.Duration) time.Duration { return time.Duration(v.draw(int64(d))) }

func (s *simulation) newVM(name string, seed uint64) *vm {
	page, err := gate.New()
	if err != nil {
		s.Fatal(err)
	}
	v := &vm{sim: s, name: name, dice: rand.New(rand.NewPCG(seed, 1)), page: page,
		quit: make(chan struct{})}
	guard := func(_ string, f func()) bool { f(); return true }
	v.suspension = suspend.New(suspend.Config{
		Hold: v.hold, GoOn: v.goOn, Guard: guard, Log: quiet(),
		Terms: func() (time.Duration, uint64) { return stopGrace, 0 },
		Room:  func() (uint64, error) { return 1 << 40, nil },
		Stays: func() uint64 { return 0 },
	})
	v.place = place.New(place.Config{
		Suspension: v.suspension, Guard: guard, Log: quiet(), Holds: v.holds,
		Total:   func() uint64 { return 0 },
		SetRoom: func(bytes uint64) { v.mu.Lock(); v.room = bytes; v.mu.Unlock() },
		Tell:    func(p *link.Place) { v.tell("tells", p) },
	})
	return v
}

// begin has the VM take part.
func (v *vm) begin() {
	c, err := client.New(client.Config{
		Path: "simulated", Name: v.name, Page: v.page, Log: quiet(), Connect: v.sim.dial,
		GPUs:   []link.GPU{{Name: "simulated", Memory: v.sim.total}},
		Policy: map[string]string{"memory-mode": "swap"}, Again: true,
		Place: func() *link.Place {
			p := v.place.Place()
			v.sim.note(v.name, "joins as %+v", *p)
			return p
		},
		Order: func(o *link.Order) {
			v.sim.note(v.name, "is ordered %+v", *o)
			v.place.Ordered(o)
		},
		Alone: v.place.Alone,
	})
	if err != nil {
		v.sim.Fatal(err)
	}
	v.mu.Lock()
	v.client = c
	v.mu.Unlock()
	v.ended.Go(v.live)
}

// tell tells the arbiter, as a device process does.
func (v *vm) tell(how string, p *link.Place) {
	v.mu.Lock()
	c := v.client
	v.mu.Unlock()
	if c != nil {
		v.sim.note(v.name, "%s %+v", how, *p)
		c.Stay(p)
	}
}

// live has programs begin and end, and tells now and then where the memory is.
func (v *vm) live() {
	next := time.Now()
	for entry := 0; ; entry = (entry + 1) % gate.Entries {
		if time.Now().Before(next) {
			entry--
		} else {
			v.newWorker(max(0, entry))
			next = time.Now().Add(5*time.Second + v.upTo(40*time.Second))
		}
		select {
		case <-v.quit:
			return
		case <-time.After(time.Second):
		}
		if v.sim.repeats {
			v.tell("repeats", v.place.Place())
		}
	}
}

// end ends all.
func (v *vm) end() {
	close(v.quit)
	v.ended.Wait()
	v.client.Close()
}

func (v *vm) holds() map[string]uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := map[string]uint64{ledger.Names[ledger.Window]: 0, ledger.Names[ledger.Contexts]: 0}
	for _, w := range v.workers {
		m[ledger.Names[ledger.Window]] += w.onGPU()
		m[ledger.Names[ledger.Contexts]] += stays
	}
	return m
}

// hold is the Suspension's.
func (v *vm) hold() (list []suspend.Worker) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.workers {
		list = append(list, w)
	}
	return list
}

// goOn is the Suspension's.
func (v *vm) goOn() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.workers {
		w.still, w.told = false, false
	}
}

// worker is a program with its worker. The VM's mutex guards it.
type worker struct {
	vm    *vm
	entry int
	*gate.Worker

	bytes, goal uint64
	out         bool // of the GPU
	still, told bool
	inUnit      bool
	lacks       bool
	gone        bool
	busy        bool
	ends        time.Time
}

// newWorker begins a program, of which the VM has two at most.
func (v *vm) newWorker(entry int) {
	held := v.suspension.Held
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.workers) >= 2 {
		return
	}
	w := &worker{vm: v, entry: entry, Worker: v.page.Worker(entry), busy: true}
	w.goal = v.sim.total*uint64(10+v.dice.IntN(30))/100 + 1
	w.ends = time.Now().Add(10*time.Second + time.Duration(v.dice.Int64N(int64(2*time.Minute))))
	v.workers = append(v.workers, w)
	w.still = held()
	v.ended.Go(w.live)
}

// onGPU is what it has there. The mutex is held.
func (w *worker) onGPU() uint64 {
	if w.out {
		return 0
	}
	return w.bytes
}

// live is the program's life.
func (w *worker) live() {
	for w.turn() {
		select {
		case <-w.vm.quit:
			w.end()
			return
		default:
		}
	}
	w.end()
}

// end is that of the worker.
func (w *worker) end() {
	w.vm.mu.Lock()
	w.gone = true
	w.vm.sim.give(w.onGPU())
	w.vm.workers = slices.DeleteFunc(w.vm.workers, func(x *worker) bool { return x == w })
	w.vm.mu.Unlock()
	w.vm.suspension.Forget(w)
	w.vm.page.Clear(w.entry)
}

// turn is what the worker does next. It says whether it goes on.
func (w *worker) turn() bool {
	v := w.vm
	v.mu.Lock()
	if time.Now().After(w.ends) {
		v.mu.Unlock()
		return false
	}
	if v.dice.IntN(3000) == 0 {
		w.busy = !w.busy
	}
	tells := w.still && w.busy && !w.told
	w.told = w.told || tells
	works := !w.still && w.busy && w.allocated()
	asks := uint64(0)
	if !w.still && w.busy && !works && !w.lacks {
		w.lacks, asks = true, v.sim.total/20
	}
	w.inUnit = works
	v.mu.Unlock()
	switch {
	case tells:
		v.place.Work()
	case asks > 0:
		v.place.Lacks(w, asks)
	case works:
		w.work()
		return true
	case !w.isStill():
		w.Worker.Rest()
	}
	time.Sleep(2 * unit)
	return true
}

// allocated takes more memory if the program hasn't all, and says whether it lacks nothing now. The
// mutex is held.
func (w *worker) allocated() bool {
	step := min(w.goal-w.bytes, w.vm.sim.total/20)
	if step == 0 {
		return true
	}
	has := uint64(0)
	for _, x := range w.vm.workers {
		has += x.onGPU() + stays
	}
	if room := w.vm.room; room != 0 && has+step > room || !w.vm.sim.take(step) {
		return false
	}
	w.bytes += step
	return true
}

// work does a little, if the gate lets it.
func (w *worker) work() {
	if entered := w.Enter(); entered {
		w.Wait(false)
		time.Sleep(unit)
		w.Leave()
		w.vm.mu.Lock()
		w.vm.ran = time.Now()
		w.vm.mu.Unlock()
	} else {
		w.Wait(true)
		time.Sleep(unit / 2)
	}
	w.vm.mu.Lock()
	w.inUnit = false
	w.vm.mu.Unlock()
}

func (w *worker) isStill() bool {
	w.vm.mu.Lock()
	defer w.vm.mu.Unlock()
	return w.still
}

var errSim = errors.New("the dice say no")

// Drain implements suspend.Worker.
func (w *worker) Drain(_ uint64, grace time.Duration, _ bool) (uint64, error) {
	v := w.vm
	time.Sleep(v.upTo(30 * time.Millisecond))
	if v.draw(20) == 0 {
		time.Sleep(grace)
		return 0, errSim
	}
	v.mu.Lock()
	w.still = true
	v.mu.Unlock()
	for {
		v.mu.Lock()
		in, bytes, gone := w.inUnit, w.bytes, w.gone
		v.mu.Unlock()
		switch {
		case gone:
			return 0, suspend.ErrEnded
		case !in:
			w.Worker.Rest()
			return bytes, nil
		}
		time.Sleep(time.Millisecond)
	}
}

// move takes as long as a move does, and fails now and then.
func (w *worker) move(out bool) error {
	v := w.vm
	time.Sleep(v.upTo(mostMove))
	if v.draw(25) == 0 {
		return errSim
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case w.gone:
		return suspend.ErrEnded
	case out:
		v.sim.give(w.onGPU())
		w.out = true
	case w.out && !v.sim.take(w.bytes):
		return errors.New("no room")
	default:
		w.out = false
	}
	return nil
}

// MoveOut implements suspend.Worker.
func (w *worker) MoveOut(uint64, bool) (c suspend.Carried, err error) { return c, w.move(true) }

// Forget implements suspend.Worker.
func (w *worker) Forget() {}

// MoveBack implements suspend.Worker.
func (w *worker) MoveBack(uint64) error { return w.move(true) }

// MoveIn implements suspend.Worker.
func (w *worker) MoveIn(uint64) error { return w.move(false) }

// EndBusy implements suspend.Worker. The arbiter ends nobody.
func (w *worker) EndBusy() { panic("an arbiter has a program ended") }

// Ended implements suspend.Worker and place.Worker.
func (w *worker) Ended() bool {
	w.vm.mu.Lock()
	defer w.vm.mu.Unlock()
	return w.gone
}

// String implements suspend.Worker.
func (w *worker) String() string { return fmt.Sprintf("%s/%d", w.vm.name, w.entry) }

// TryAgain implements place.Worker. A program that is denied memory goes on with what it has.
func (w *worker) TryAgain(why string) {
	w.vm.mu.Lock()
	defer w.vm.mu.Unlock()
	if w.lacks = false; why != "" {
		w.vm.sim.note(w.vm.name, "is denied memory: %s", why)
		w.goal = w.bytes
	}
}
