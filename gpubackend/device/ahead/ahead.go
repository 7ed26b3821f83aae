// SPDX-License-Identifier: Apache-2.0

// Package ahead decides what a VM holds of the GPU before a program asks for it, and for how long.
//
// Warm workers are processes without a channel that have initialised the GPU already: an OPEN gets
// the oldest, and another is started in its place (package warm). They hold nothing of the guest's,
// so they aren't affected by a change of memory, a pause or another driver in the VM. After a
// change of policy they are started anew.
//
// Each GPU of the VM has warm workers of its own, with a context there. A program gets one of the
// GPU that it says it uses first. If there is none it gets one of another GPU, which at least has
// initialised the driver, and gives up the context that isn't needed.
//
// A VM whose programs don't use the GPU holds none of its memory: the mover and the warm workers,
// each with a context, begin with the driver or a program, and end after the setting idle-time,
// counted from the last program or the driver's start (package idle). The first program of an idle
// VM therefore begins cold.
//
// The mover may end at any time: what workers lend it ends with them, and guest memory is
// registered again with the next copy. It is stopped only when no worker is left, and stays the
// VM's mover until it has ended, so that the VM never has two, and who waits for its copies waits
// for its end.
//
// Where there is an arbiter it bounds the warm workers of all VMs of a GPU together (bound.go).
//
// # Who owns what
//
// An Ahead has a lock, under which it decides how many workers to keep and calls Config.Used and
// Config.Held, which must not call an Ahead. PutBack, Lost and Empty don't take it.
//
// # Who may lie
//
// Workers that are started ahead of use: package warm bounds what they can do.
package ahead

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/accounts"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/idle"
	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/warm"
)

// Config is what an Ahead needs of its VM.
type Config struct {
	GPU      string
	GPUs     int // of the VM; 0: one
	Settings *settings.VM
	Workers  *workers.Workers
	Accounts *accounts.Accounts
	Used     func() bool // a program uses the GPU
	Held     func() bool // the VM is suspended, or about to be
	// Asks says that workers confine themselves when they are warm, and ask for what they map of
	// the guest's memory.
	Asks bool
	// StopMover makes the mover serve nobody any more. What it returns waits for its end; nil:
	// there is nothing to stop.
	StopMover func() (stop func())
	Starts    *pace.Pace    // how often a worker may be started
	Clock     pace.Clock    // of that
	Start     time.Duration // that a worker may take to make itself ready
	Answer    time.Duration // that a program waits for one that isn't yet
	// Guard runs a part of this package, and survives its faults; Run does so on a goroutine for
	// which the device's end waits.
	Guard func(part string, f func()) bool
	Run   func(part string, f func())
	Log   *logrus.Entry
}

// Ahead has what a VM holds.
type Ahead struct {
	config Config
	pools  []*warm.Pool[*workers.Worker] // by GPU; each has a lock of its own

	news chan struct{} // signals that the VM wants another number of warm workers

	mu     sync.Mutex
	bound  int      // of warm workers of each GPU; guarded by mu, as is what follows
	want   int      // how many there would be without it
	begun  uint64   // when a program began last, by the host's monotonic clock, in ns; 0: none did
	driver bool     // there is a driver, for whose programs workers are kept warm; guarded by mu
	idle   *idle.VM // when the VM was used; guarded by mu
}

// New returns the Ahead of a VM without a driver, which holds nothing.
func New(c Config) *Ahead {
	a := &Ahead{config: c, bound: Any, news: make(chan struct{}, 1)}
	a.idle = idle.New(c.Settings.Now().Settings.IdleTime,
		func() { c.Guard("an idle VM", a.EndIdle) })
	for gpu := range max(1, c.GPUs) {
		a.pools = append(a.pools, warm.New(warm.Config[*workers.Worker]{
			Start: func() (*workers.Worker, func() error, error) { return a.start(gpu) },
			Kill:  (*workers.Worker).Kill, Patience: c.Answer, Pace: c.Starts, Log: c.Log,
			Go:    func(f func()) { c.Run("a warm worker", f) },
			Later: a.later,
		}))
	}
	return a
}

// later fills the pool when it is the next worker's turn.
func (a *Ahead) later(wait time.Duration, due func()) {
	turn := a.config.Clock.After(wait)
	go a.config.Guard("starting warm workers", func() {
		<-turn
		due()
		a.Refill()
	})
}

// start starts a worker ahead of use. What it returns makes the worker initialise a GPU, with an
// entry in the ledger.
func (a *Ahead) start(gpu int) (*workers.Worker, func() error, error) {
	w, err := a.config.Workers.Start(a.config.Settings.Now().Policy, gpu)
	if err != nil {
		return nil, nil, err
	}
	if err := a.config.Accounts.Ahead(w); err != nil {
		w.Kill()
		return nil, nil, err
	}
	return w, func() error {
		policy := w.Policy
		m := &handover.Message{Kind: handover.KindWarm, GPU: a.config.GPU, Home: gpu,
			Policy: &policy, Asks: a.config.Asks}
		fds := a.config.Accounts.Pass(m, nil, w)
		if err := w.Conn().Request(m, fds, handover.KindReady, a.config.Start); err != nil {
			return err
		}
		a.config.Accounts.Ready(w)
		return nil
	}, nil
}

// wanted is how many workers to keep warm now on each GPU. The lock is held.
func (a *Ahead) wanted() int {
	if !a.driver || a.config.Held() || !a.idle.Keeps() {
		return 0
	}
	n := a.config.Settings.WarmTarget()
	most := int(a.config.Settings.Told().Channels) / len(a.pools) // of all that programs can have
	return min(n, max(1, most))
}

// refill starts as many warm workers as are missing, and ends those that are too many. The lock is
// held.
func (a *Ahead) refill() {
	if want := a.wanted(); want != a.want {
		a.want = want
		select {
		case a.news <- struct{}{}:
		default:
		}
	}
	a.keep(min(a.want, a.bound))
}

// keep makes each GPU have so many.
func (a *Ahead) keep(n int) {
	for _, p := range a.pools {
		p.Keep(n)
	}
}

// Refill starts as many warm workers as are missing, and ends those that are too many.
func (a *Ahead) Refill() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill()
}

// DriverCame is told that a driver has started.
func (a *Ahead) DriverCame() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.driver = true
	a.idle.DriverCame()
	a.refill()
	a.idle.Rested(a.config.Used())
}

// DriverGone is told that all programs end with their driver: nothing is held for new ones.
func (a *Ahead) DriverGone() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.driver = false
	a.idle.Gone()
	a.refill()
}

// Begin is called when a worker is about to begin for a program. Call what it returns when it has
// begun, or can't.
func (a *Ahead) Begin() (began func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle.Begin()
	a.begun = now()
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.idle.Began()
		a.idle.Rested(a.config.Used())
	}
}

// Rested is called when a worker has ended.
func (a *Ahead) Rested() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle.Rested(a.config.Used())
}

// Changed is told that the settings have changed.
func (a *Ahead) Changed(before, now *settings.Now) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Policy != before.Policy {
		a.keep(0) // they were started with the old one
	}
	a.idle.SetTime(now.Settings.IdleTime)
	a.refill()
	a.idle.Rested(a.config.Used())
}

// EndIdle gives back what the VM has of the GPU, if it is idle.
func (a *Ahead) EndIdle() {
	if stop := a.beginEnd(); stop != nil {
		a.config.Log.Debug("the VM is idle: its mover ends")
		done := make(chan struct{})
		a.config.Run("an idle VM's mover", func() {
			defer close(done)
			stop()
		})
		<-done
	}
}

// beginEnd ends the warm workers if the VM is idle, and returns what stops the mover.
func (a *Ahead) beginEnd() (stop func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.idle.Over(a.config.Used()) {
		return nil
	}
	a.refill()
	return a.config.StopMover()
}

// Empty ends the warm workers.
func (a *Ahead) Empty() { a.keep(0) }

// Take takes a warm worker for a program that says which GPU it uses first (any number), and waits
// for one that is nearly ready; nil: there is none.
func (a *Ahead) Take(gpu uint32, quit <-chan struct{}) *workers.Worker {
	if gpu >= uint32(len(a.pools)) {
		gpu = 0
	}
	w, ok := a.pools[gpu].Take(quit)
	for i := 0; !ok && i < len(a.pools); i++ {
		if i != int(gpu) {
			w, ok = a.pools[i].Take(quit)
		}
	}
	if !ok {
		return nil
	}
	if w.Ended() {
		a.config.Log.Info("a worker that was started ahead of use is lost")
		return nil
	}
	return w
}

// PutBack returns a warm worker that was taken. nil is none.
func (a *Ahead) PutBack(w *workers.Worker) {
	if w == nil {
		return
	}
	pool := a.pools[w.Home]
	pool.PutBack(w)
	if w.Ended() { // perhaps earlier: then nobody else notices that it is lost
		pool.Lost(w, nil)
	}
}

// Lost is told that a worker without a channel has ended.
func (a *Ahead) Lost(w *workers.Worker, err error) {
	if w.Ahead {
		a.pools[w.Home].Lost(w, err)
	}
}

// Kept are the warm workers, those of each GPU oldest first, and how many of them are ready.
func (a *Ahead) Kept() (all []*workers.Worker, ready int) {
	for _, p := range a.pools {
		kept, n := p.Kept()
		all, ready = append(all, kept...), ready+n
	}
	return all, ready
}
