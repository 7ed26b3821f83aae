// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// Warm workers are processes without a channel that have initialised the GPU already: an OPEN gets
// the oldest, and another is started in its place. They hold nothing of the guest's, so that a
// change of memory, a pause or another driver in the same VM doesn't concern them. A policy does:
// they are started anew. One that dies or can't be warmed is replaced with the next OPEN only, so
// that what always fails doesn't go on for ever.

// Workers that are kept warm unless the owner says otherwise. One costs several hundred MiB of
// device memory (526 MiB on an H100), and is replaced in the time that its program takes to do
// anything; the software GPU starts in no time.
const (
	warmCUDA = 1
	warmSoft = 0
)

// warmWanted is how many workers to keep warm now.
func (d *Device) warmWanted() int {
	if !d.warming || d.suspension.Held() || !d.idle.Keeps() {
		return 0
	}
	return d.warmTarget()
}

// warmTarget is how many workers are kept warm while there is a driver and the VM isn't idle.
func (d *Device) warmTarget() int {
	n := d.settings.WarmWorkers
	switch {
	case n == warmDefault && d.config.GPU == "cuda":
		n = warmCUDA
	case n == warmDefault:
		n = warmSoft
	}
	return min(n, len(d.channels))
}

// refill starts as many warm workers as are missing, and ends those that are too many. Device.mu is
// held.
func (d *Device) refill() {
	want := d.warmWanted()
	d.retireWarm(want)
	for len(d.warm) < want {
		if wait, ok := d.starts.Try(); !ok {
			d.refillLater(wait)
			return
		}
		w, err := d.spawn()
		if err != nil {
			d.log.WithError(err).Warn("start a worker ahead of use")
			return
		}
		if w.warmEntry, err = d.warmEntries.take(); err != nil { // until its process has ended
			w.kill()
			d.log.WithError(err).Warn("start a worker ahead of use")
			return
		}
		w.ready = make(chan struct{})
		d.warm = append(d.warm, w)
		d.running.add(1)
		entry := w.warmEntry // the worker's end, which may be any time, takes it back
		go d.guard("a warm worker", func() { d.warmUp(w, entry) })
	}
}

// retireWarm ends all warm workers but so many.
func (d *Device) retireWarm(keep int) {
	for len(d.warm) > keep {
		last := len(d.warm) - 1
		d.warm[last].kill()
		d.warm = d.warm[:last]
	}
}

// warmUp has a worker initialise the GPU, with an entry of the ledger.
func (d *Device) warmUp(w *workerProcess, entry int) {
	defer d.running.done()
	defer close(w.ready)
	policy := w.policy
	m := &handover.Message{Kind: handover.KindWarm, GPU: d.config.GPU, Policy: &policy}
	fds := d.holdings.Pass(m, nil, ledger.Warm+entry)
	err := w.conn.request(m, fds, handover.KindReady, d.config.Timeouts.Start)
	if err == nil {
		return
	}
	w.kill()
	d.mu.Lock()
	defer d.mu.Unlock()
	w.failure = err
	d.dropWarm(w, err)
}

// dropWarm forgets a warm worker that is of no use, and says why unless it was ended on purpose.
func (d *Device) dropWarm(w *workerProcess, err error) {
	i := slices.Index(d.warm, w)
	if i < 0 {
		return
	}
	d.warm = slices.Delete(d.warm, i, i+1)
	d.log.WithError(err).Info("a worker that was started ahead of use is lost")
}

// takeWarm takes the oldest warm worker, or one that soon is: it began earlier than one that would
// be started now. It returns nil if there is none.
func (d *Device) takeWarm(quit <-chan struct{}) *workerProcess {
	d.mu.Lock()
	if len(d.warm) == 0 {
		d.mu.Unlock()
		return nil
	}
	w := d.warm[0]
	d.warm = slices.Delete(d.warm, 0, 1)
	d.mu.Unlock()
	timer := time.NewTimer(d.config.Timeouts.Answer)
	defer timer.Stop()
	select {
	case <-w.ready:
	case <-quit:
	case <-timer.C:
	}
	return d.usable(w)
}

// usable returns a worker that was taken if it is warm. Otherwise that is its end.
func (d *Device) usable(w *workerProcess) *workerProcess {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-w.ready:
		if w.failure == nil && !w.ended {
			return w
		}
		d.log.WithError(w.failure).Info("a worker that was started ahead of use is lost")
	default:
		d.log.Info("a worker that was started ahead of use did not become warm in time: " +
			"it is killed")
	}
	w.kill()
	return nil
}

// putBack returns a warm worker that was taken. nil is none.
func (d *Device) putBack(w *workerProcess) {
	if w != nil && !w.ended {
		d.warm = slices.Insert(d.warm, 0, w) // refill ends what is too much
	}
}

// wantsCold says whether a worker that has ended leaves its queue, of that size, to one that begins
// cold: its program has CUDA variables with which it was not started (worker.AskCold). Only a warm
// worker is believed that, and only if it has returned no chain.
func (w *workerProcess) wantsCold(size uint16) bool {
	taken := w.state.Base() - w.base
	return w.ready != nil && !w.closing && w.state.AskedCold() &&
		int(taken) == len(w.state.InFlight(size))
}

// beginCold starts a cold worker where a warm one ended that didn't suit its program, or says that
// it didn't. The guest doesn't notice: the queue and the command ring are read from where they
// began.
func (d *Device) beginCold(w *workerProcess) bool {
	c := w.channel
	if c.lease == nil || !w.wantsCold(c.lease.queue.Size) {
		return false
	}
	c.base, c.held = w.base, nil
	if c.stopping {
		c.cold = &w.program // for when the queue goes on
	} else {
		d.startCold(c, w.program)
	}
	return true
}

// startCold starts the cold worker of a program whose warm one is gone, beside what else goes on.
// What can't be started leaves its queue.
func (d *Device) startCold(c *channel, p program) {
	c.cold = &p
	may := func() error {
		switch {
		case c.cold != &p || c.lease == nil:
			return errNotRunning
		case c.worker != nil:
			return errBusy
		}
		return nil
	}
	d.running.add(1)
	go d.guard("a cold worker", func() {
		defer d.running.done()
		d.starts.Take()
		err := d.begin(c, p, false, nil, may)
		d.mu.Lock()
		defer d.mu.Unlock()
		if err == nil || c.cold != nil && c.cold != &p || c.cold == &p && c.lease == nil {
			return // it runs, or another one is started; or it is when the queue goes on
		}
		c.cold = nil
		d.log.WithField("channel", c.index).WithError(err).Error("start a worker")
		d.reclaim(c)
	})
}
