// SPDX-License-Identifier: Apache-2.0

package device

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/warm"
)

// Warm workers are processes without a channel that have initialised the GPU already: an OPEN gets
// the oldest, and another is started in its place. They hold nothing of the guest's, so that a
// change of memory, a pause or another driver in the same VM doesn't concern them. A policy does:
// they are started anew. Package warm keeps them.

// newWarm makes the pool of warm workers.
func (d *Device) newWarm() *warm.Pool[*workers.Worker] {
	return warm.New(warm.Config[*workers.Worker]{
		Start: d.startWarm, Kill: (*workers.Worker).Kill,
		Patience: d.config.Timeouts.Answer, Pace: d.starts, Log: d.log,
		Go: func(f func()) { d.run("a warm worker", f) },
		Later: func(wait time.Duration, due func()) {
			turn := d.config.Clock.After(wait)
			go d.guard("starting warm workers", func() {
				<-turn
				d.mu.Lock()
				defer d.mu.Unlock()
				due()
				d.refill()
			})
		},
	})
}

// warmWanted is how many workers to keep warm now.
func (d *Device) warmWanted() int {
	if !d.warming || d.suspension.Held() || !d.idle.Keeps() {
		return 0
	}
	return d.settings.WarmTarget()
}

// refill starts as many warm workers as are missing, and ends those that are too many. Device.mu is
// held.
func (d *Device) refill() { d.warm.Keep(d.warmWanted()) }

// startWarm starts a worker ahead of use. What it returns has it initialise the GPU, with an entry
// of the ledger.
func (d *Device) startWarm() (*workers.Worker, func() error, error) {
	w, err := d.workers.Start(d.settings.Now().Policy, true)
	if err != nil {
		return nil, nil, err
	}
	if err := d.accounts.Ahead(w); err != nil {
		w.Kill()
		return nil, nil, err
	}
	return w, func() error {
		policy := w.Policy
		m := &handover.Message{Kind: handover.KindWarm, GPU: d.config.GPU, Policy: &policy}
		fds := d.accounts.Pass(m, nil, w)
		return w.Conn().Request(m, fds, handover.KindReady, d.config.Timeouts.Start)
	}, nil
}

// takeWarm takes a warm worker; nil: there is none.
func (d *Device) takeWarm(quit <-chan struct{}) *workers.Worker {
	w, ok := d.warm.Take(quit)
	if !ok {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.Ended() {
		d.log.Info("a worker that was started ahead of use is lost")
		return nil
	}
	return w
}

// putBack returns a warm worker that was taken. nil is none. Device.mu is held.
func (d *Device) putBack(w *workers.Worker) {
	if w != nil && !w.Ended() {
		d.warm.PutBack(w)
	}
}

// wantsCold says whether a worker that has ended leaves its channel to one that begins cold: its
// program has CUDA variables with which it was not started (worker.AskCold). Only a warm worker is
// believed that, and only if it has returned no chain.
func (c *channel) wantsCold(w *workers.Worker) (cold bool) {
	w.State(func(s *handover.State) {
		taken := s.Base() - c.base
		cold = w.Ahead && !w.Retired() && s.AskedCold() &&
			int(taken) == len(s.InFlight(c.queue.Size()))
	})
	return cold
}

// beginCold starts a cold worker where a warm one ended that didn't suit its program, or says that
// it didn't. The guest doesn't notice: the queue and the command ring are read from where they
// began.
func (d *Device) beginCold(c *channel, w *workers.Worker) bool {
	if !c.queue.Runs() || !c.wantsCold(w) {
		return false
	}
	c.queue.Rewind(c.base)
	if p := w.Program(); c.stopping {
		c.cold = &p // for when the queue goes on
	} else {
		d.startCold(c, p)
	}
	return true
}

// startCold starts the cold worker of a program whose warm one is gone, beside what else goes on.
// What can't be started leaves its queue.
func (d *Device) startCold(c *channel, p workers.Program) {
	c.cold = &p
	may := func() error {
		switch {
		case c.cold != &p || !c.queue.Runs():
			return errNotRunning
		case c.worker != nil:
			return errBusy
		}
		return nil
	}
	d.run("a cold worker", func() {
		d.starts.Take()
		_, err := d.begin(c, &beginning{Program: p, may: may})
		d.mu.Lock()
		defer d.mu.Unlock()
		if err == nil || c.cold != nil && c.cold != &p || c.cold == &p && !c.queue.Runs() {
			return // it runs, or another one is started; or it is when the queue goes on
		}
		c.cold = nil
		d.log.WithField("channel", c.index).WithError(err).Error("start a worker")
		d.reclaim(c)
	})
}
