// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/control"
	"github.com/paracuda/paracuda/gpubackend/device/movers"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// open starts a worker for a channel and returns the status for the driver.
func (d *Device) open(index int, pid int32, comm string, a control.Asking) uint32 {
	c, p, begin := d.channels[index], program{pid, comm}, time.Now()
	d.awaitQueue(c, a.Quit)
	if !d.movers.AwaitLeft(a.Quit) {
		d.log.WithField("channel", c.index).Error(errLeft)
		return wire.StatusNoWorker
	}
	_, err := d.begin(c, &beginning{program: p, warm: true, quit: a.Quit, may: func() error {
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
	log := d.log.WithField("channel", index).WithField("program", p.comm)
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
	program
	warm  bool            // a warm one will do
	quit  <-chan struct{} // nobody waits for it any more
	may   func() error    // says why not, if it is so by now; Device.mu is held
	saved *saving.Source  // what it goes on from; nil for most
}

// begin starts a channel's worker, a warm one if there is one and it may.
func (d *Device) begin(c *channel, b *beginning) (w *workerProcess, err error) {
	defer d.beginUse()()
	useWarm := b.warm
	for range startTries {
		if err := d.prepareMover(c); err != nil {
			return nil, fmt.Errorf("start the mover: %w", err)
		}
		var warm *workerProcess
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
	c *channel, warm *workerProcess, b *beginning,
) (*workerProcess, error) {
	w, ready, err := d.handOver(c, warm, b)
	if err != nil {
		return nil, err
	}
	limit := d.config.Timeouts.Start
	if s := b.saved; s != nil {
		limit += time.Duration(s.Bytes/slowest) * time.Second
	}
	err = ready(handover.KindReady, limit)
	d.mu.Lock()
	if err == nil && w.ended {
		err = errors.New("the worker ended")
	}
	w.serves = err == nil
	close(w.start)
	d.mu.Unlock()
	if err != nil {
		w.kill()
		w.awaitEnd()
		return nil, err
	}
	return w, nil
}

// handOver sends a worker everything that it needs for a channel. What it returns waits for the
// answer.
func (d *Device) handOver(c *channel, warm *workerProcess, b *beginning) (
	w *workerProcess, ready func(handover.Kind, time.Duration) error, err error) {
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
	if w = warm; w != nil && (w.ended || w.policy != d.settings.Now().Policy) {
		w.kill()
		w = nil
		d.starts.Take()
	}
	if w == nil {
		if w, err = d.spawn(); err != nil {
			d.accounts.Release(entry)
			return nil, nil, err
		}
	}
	d.accounts.Serve(w, entry, b.pid)
	c.queue.Lend(w.state)
	w.base, w.program, w.start = c.queue.Base(), b.program, make(chan struct{})
	m, fds := d.startMessage(c, w, mover, b.saved)
	if ready, err = w.conn.Ask(m, fds); err != nil {
		w.kill()
		return nil, nil, err
	}
	w.log.Store(d.log.WithFields(logrus.Fields{"channel": c.index, "program": w.comm}))
	w.channel, c.worker, c.paused, c.cold = c, w, nil, nil
	return w, ready, nil
}

// startMessage is what a worker needs, and the files of it.
func (d *Device) startMessage(
	c *channel, w *workerProcess, mover *os.File, saved *saving.Source,
) (*handover.Message, []int) {
	m, fds := c.queue.Message(handover.KindStart, nil)
	if saved != nil {
		m.Saved, m.Queue.InFlight = true, c.queue.Held()
	}
	policy := d.settings.Now().Policy
	m.GPU, m.Channel, m.PID, m.Comm, m.Policy = d.config.GPU, c.index, w.pid, w.comm, &policy
	m.Held = d.suspension.Held()
	m.Files.State, m.Files.Conn = true, true
	fds = append(fds, w.state.FD(), int(mover.Fd()))
	if saved != nil {
		m.Files.Object, fds = true, append(fds, int(saved.From.Fd()))
	}
	fds = m.GiveLog(d.dirty.Log(), fds)
	fds = d.accounts.Pass(m, fds, w)
	regions, files := handover.Describe(d.mapped.Regions())
	m.Memory, m.Files.Memory = regions, len(files)
	return m, append(fds, files...)
}

// spawn starts a worker process, which serves nobody yet.
func (d *Device) spawn() (*workerProcess, error) {
	state, err := handover.NewState()
	if err != nil {
		return nil, err
	}
	conn, remote, err := handover.Pair()
	if err != nil {
		state.Close()
		return nil, err
	}
	defer remote.Close()
	proc, err := d.config.Spawn.Worker(remote)
	if err != nil {
		state.Close()
		conn.Close()
		return nil, err
	}
	w := &workerProcess{
		state: state, proc: proc, policy: d.settings.Now().Policy, exited: make(chan struct{}),
		gone: make(chan struct{}), limits: d.config.Timeouts,
	}
	w.log.Store(d.log)
	d.accounts.Began(w)
	w.conn = d.converse(conn,
		func(m *handover.Message, fds []int) { d.said(w, m, fds) })
	d.run("a worker's end", func() { d.await(w) })
	return w, nil
}

// await waits for a worker's end and takes its queue back.
func (d *Device) await(w *workerProcess) {
	defer close(w.gone)
	err := w.proc.Wait()
	d.accounts.Ended(w)
	w.over.Store(true)
	d.suspension.Forget(w)
	close(w.exited)
	w.conn.Close()
	d.exports.Ended(&w.exports)
	if w.isStuck() {
		w.log.Load().Warn("a worker that did not end when it was killed has ended")
	}
	d.mu.Lock()
	had := w.channel != nil
	d.mu.Unlock()
	if had {
		if !w.conn.Quiet() {
			d.markAll()
		}
		d.tellMover() // copies that the worker started end before its pages go back to the guest
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.channel == nil {
		d.warm.Lost(w, err)
	} else {
		d.takeBack(w, err)
	}
	w.ended = true
	w.state.Close()
	d.idle.Rested(d.used())
}

// takeBack takes the queue of a worker that has ended.
func (d *Device) takeBack(w *workerProcess, err error) {
	c := w.channel
	log := d.log.WithFields(logrus.Fields{"channel": c.index, "program": w.comm})
	child.SayEnded(log, "worker", err, w.killed.Load())
	d.ended.Add(w.state.Counters())
	if c.worker != w { // the queue is another driver's by now
		return
	}
	c.worker, c.paused = nil, nil
	if !w.serves || d.beginCold(w) {
		return // who started it goes on
	}
	c.queue.Leave(w.state, d.mapped)
	d.reclaim(c)
}

// closeChannel ends a channel's worker. When it returns, nothing touches the channel's pages and
// all its chains are returned.
func (d *Device) closeChannel(index int) uint32 {
	d.mu.Lock()
	c := d.channels[index]
	w := c.worker
	d.saving.Forget(index)
	if c.cold = nil; w != nil {
		w.closing.Store(true)
	}
	d.mu.Unlock()
	if w != nil {
		if err := w.conn.Request(&handover.Message{Kind: handover.KindStop}, nil,
			handover.KindStopped, d.config.Timeouts.Stop); err != nil && !w.killed.Load() {
			d.log.WithField("channel",
				index).WithError(err).Warn("worker did not stop: it is killed")
		}
		w.kill()
		if !w.awaitEnd() {
			d.park(w.gone)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.awaitLinger(); d.reclaim(c); {
		d.awaitLinger()
	}
	return wire.StatusOk
}
