// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/control"
	"github.com/paracuda/paracuda/gpubackend/device/movers"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// open starts a worker for a channel and returns the status for the driver.
func (d *Device) open(index int, pid int32, comm string, a control.Asking) uint32 {
	c, p, begin := d.channels[index], workers.Program{PID: pid, Name: comm}, time.Now()
	d.awaitQueue(c, a.Quit)
	if d.hasOpened(c, p) {
		return wire.StatusOk
	}
	if !d.movers.AwaitLeft(a.Quit) {
		d.log.WithField("channel", c.index).Error(errLeft)
		return wire.StatusNoWorker
	}
	_, err := d.begin(c, &beginning{Program: p, warm: true, quit: a.Quit, may: func() error {
		most := d.settings.Now().Settings.Processes
		switch {
		case await.Closed(a.Dropped), !c.queue.Runs():
			return errNotRunning
		case c.worker != nil || c.cold != nil || d.saving.Has(index),
			most != 0 && d.taken() >= most:
			return errBusy
		}
		return nil
	}})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refill()
	log := d.log.WithField("channel", index).WithField("program", p.Name)
	switch {
	case errors.Is(err, errNotRunning):
		return wire.StatusBadRequest
	case errors.Is(err, errBusy):
		return wire.StatusBusy
	case errors.Is(err, errQuit):
		return wire.StatusNoWorker
	case err != nil:
		log.WithError(err).Error("start a worker")
		return wire.StatusNoWorker
	}
	log.WithField("took", time.Since(begin)).Debug("channel is open")
	return wire.StatusOk
}

var (
	errBusy = errors.New("the channel has a worker")
	errQuit = errors.New("the control queue stops")
	errLeft = errors.New("a process of the device process before this one does not end")
)

// awaitQueue waits for a channel's queue. The control queue is started before it, and a driver that
// is quick asks for a channel while the front end's messages about that are still on their way.
func (d *Device) awaitQueue(c *channel, quit <-chan struct{}) {
	d.mu.Lock()
	start := c.queue.Started()
	d.mu.Unlock()
	timer := time.NewTimer(d.config.Timeouts.Answer)
	defer timer.Stop()
	select {
	case <-start:
	case <-quit:
	case <-timer.C:
	}
}

// beginning is a program for which a worker is to be started.
type beginning struct {
	workers.Program
	warm  bool            // a warm one will do
	quit  <-chan struct{} // nobody waits for it any more
	may   func() error    // says why not, if it is so by now; Device.mu is held
	saved *saving.Source  // what it goes on from; nil for most
	// it comes before the guest's memory and its queue: the worker gets both with resume
	arrives bool
}

// begin starts a channel's worker, a warm one if there is one and it may.
func (d *Device) begin(c *channel, b *beginning) (w *workers.Worker, err error) {
	defer d.beginUse()()
	useWarm := b.warm
	for range startTries {
		if err := d.prepareMover(c, b.arrives); err != nil {
			return nil, fmt.Errorf("start the mover: %w", err)
		}
		var warm *workers.Worker
		if useWarm {
			warm = d.takeWarm(b.quit)
		}
		if warm == nil && !d.awaitTurn(c, b.quit) {
			return nil, errQuit
		}
		w, err = d.startWorker(c, warm, b)
		switch {
		case errors.Is(err, movers.ErrNotReady):
		case err == nil, warm == nil, errors.Is(err, errBusy), errors.Is(err, errNotRunning):
			return w, err
		default:
			d.log.WithField("channel",
				c.index).WithError(err).Info("a worker that was started ahead of use does not " +
				"take its channel")
			useWarm = false
		}
	}
	return w, err
}

// startTries is how often a worker is started: without the warm one, and with another mover.
const startTries = 3

// startWorker hands a channel's queue to a worker: to a warm one, or to one that it starts if warm
// is nil or of no use.
func (d *Device) startWorker(
	c *channel, warm *workers.Worker, b *beginning,
) (*workers.Worker, error) {
	w, ready, err := d.handOver(c, warm, b)
	if err != nil {
		return nil, err
	}
	limit := d.config.Timeouts.Start
	if s := b.saved; s != nil {
		limit += workers.RecordTakes(s.Bytes)
	}
	err = ready(handover.KindReady, limit)
	d.mu.Lock()
	if err == nil && c.worker != w {
		err = errors.New("the worker ended")
	}
	if c.worker == w {
		if c.serves = err == nil; c.serves {
			d.note(c, w)
		}
	}
	w.Begun()
	d.mu.Unlock()
	if err != nil {
		w.Kill()
		w.AwaitEnd()
		return nil, err
	}
	return w, nil
}

// handOver sends a worker everything that it needs for a channel. What it returns waits for the
// answer.
func (d *Device) handOver(c *channel, warm *workers.Worker, b *beginning) (
	w *workers.Worker, ready func(handover.Kind, time.Duration) error, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := b.may(); err != nil {
		d.putBack(warm)
		return nil, nil, err
	}
	mover, err := d.movers.Connect()
	if err != nil {
		d.putBack(warm)
		return nil, nil, err
	}
	defer mover.Close()
	entry, err := d.accounts.Reserve()
	if err != nil {
		d.putBack(warm)
		return nil, nil, err
	}
	if w = warm; w != nil && (w.Ended() || w.Policy != d.settings.Now().Policy) {
		w.Kill()
		w = nil
		d.starts.Take()
	}
	if w == nil {
		if w, err = d.workers.Start(d.settings.Now().Policy, false); err != nil {
			d.accounts.Release(entry)
			return nil, nil, err
		}
	}
	d.accounts.Serve(w, entry, b.PID)
	m, fds := d.startMessage(c, w, mover, b)
	if ready, err = w.Conn().Ask(m, fds); err != nil {
		w.Kill()
		return nil, nil, err
	}
	w.Serve(c.index, b.Program)
	d.exports.Serves(&w.Offers, c.index)
	c.worker, c.base, c.serves, c.paused, c.cold = w, c.queue.Base(), false, nil, nil
	c.bare = b.arrives
	c.unmet, c.unasked = false, false
	return w, ready, nil
}

// startMessage is what a worker needs, and the files of it.
func (d *Device) startMessage(
	c *channel, w *workers.Worker, mover *os.File, b *beginning,
) (*handover.Message, []int) {
	m, fds := &handover.Message{Kind: handover.KindStart}, []int(nil)
	if !b.arrives {
		m, fds = c.queue.Message(handover.KindStart, nil)
	}
	if m.Saved = b.saved != nil; m.Saved && !b.arrives {
		m.Queue.InFlight = c.queue.Held()
	}
	policy := d.settings.Now().Policy
	m.GPU, m.Channel, m.PID, m.Comm, m.Policy = d.config.GPU, c.index, b.PID, b.Name, &policy
	m.Held = d.suspension.Held()
	m.Files.State, m.Files.Conn = true, true
	w.State(func(s *handover.State) { // which isn't closed while Device.mu is held
		if !b.arrives {
			c.queue.Lend(s)
		}
		fds = append(fds, s.FD())
	})
	fds = append(fds, int(mover.Fd()))
	if b.saved != nil {
		m.Files.Object, fds = true, append(fds, int(b.saved.From.Fd()))
	}
	fds = m.GiveLog(d.dirty.Log(), fds)
	fds = d.accounts.Pass(m, fds, w)
	if b.arrives {
		return m, fds
	}
	return d.giveMemory(m, fds)
}

// closeChannel ends a channel's worker. When it returns, nothing touches the channel's pages and
// all its chains are returned.
func (d *Device) closeChannel(index int) uint32 {
	d.mu.Lock()
	c := d.channels[index]
	w := c.worker
	d.saving.Forget(index)
	if c.cold = nil; w != nil {
		w.Retire()
	}
	d.mu.Unlock()
	if w != nil && !w.Stop() {
		d.park(w.Gone())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.awaitLinger(); d.reclaim(c); {
		d.awaitLinger()
	}
	return wire.StatusOk
}
