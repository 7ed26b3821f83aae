// SPDX-License-Identifier: Apache-2.0

package device

import (
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// open starts a worker for a channel and returns the status for the driver. It stops waiting when quit is closed.
func (d *Device) open(index int, pid int32, comm string, quit <-chan struct{}) uint32 {
	c, begin := d.channels[index], time.Now()
	d.awaitQueue(c, quit)
	log := d.log.WithField("channel", index).WithField("program", comm)
	if err := d.prepareMover(c); err != nil {
		log.WithError(err).Error("start the mover")
		return wire.StatusNoWorker
	}
	warm := d.takeWarm(quit)
	if warm == nil && !d.awaitTurn(c, quit) {
		return wire.StatusNoWorker
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.refill()
	switch {
	case c.worker != nil || c.cold != nil:
		d.putBack(warm)
		return wire.StatusBusy
	case c.lease == nil:
		d.putBack(warm)
		return wire.StatusBadRequest
	}
	p := program{pid: pid, comm: comm}
	err := d.startWorker(c, warm, p)
	if err != nil && warm != nil {
		log.WithError(err).Info("a worker that was started ahead of use does not take its channel")
		d.starts.Take()
		err = d.startWorker(c, nil, p)
	}
	if err != nil {
		log.WithError(err).Error("start a worker")
		return wire.StatusNoWorker
	}
	log.WithField("warm", c.worker.ready != nil).WithField("took", time.Since(begin)).Debug("channel is open")
	return wire.StatusOk
}

// awaitQueue waits for a channel's queue. The control queue is started before it, and a driver that is quick asks for
// a channel while the front end's messages about that are still on their way.
func (d *Device) awaitQueue(c *channel, quit <-chan struct{}) {
	d.mu.Lock()
	start := c.start
	d.mu.Unlock()
	timer := time.NewTimer(d.config.Timeouts.Answer)
	defer timer.Stop()
	select {
	case <-start:
	case <-quit:
	case <-timer.C:
	}
}

// startWorker hands a channel's queue to a worker: to a warm one, or to one that it starts if warm is nil or of no use.
func (d *Device) startWorker(c *channel, warm *workerProcess, p program) error {
	w := warm
	if w != nil && (w.ended || w.policy != d.policy) {
		w.kill()
		w = nil
		d.starts.Take()
	}
	if w == nil {
		var err error
		if w, err = d.spawn(); err != nil {
			return err
		}
	}
	w.state.SetBase(c.base)
	w.base, w.program = c.base, p
	if err := d.handOver(c, w); err != nil {
		w.kill()
		<-w.exited
		return err
	}
	w.channel, c.worker, c.paused = c, w, nil
	return nil
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
	w := &workerProcess{state: state, proc: proc, policy: d.policy, exited: make(chan struct{}), gone: make(chan struct{})}
	w.conn = newRequester(conn, d.config.Timeouts.Answer, func(m *handover.Message, fds []int) { d.exports.receive(w, m, fds) })
	d.workers.Add(1)
	go d.await(w)
	return w, nil
}

// handOver sends the start message with everything a worker needs.
func (d *Device) handOver(c *channel, w *workerProcess) error {
	m, fds := c.lease.message(handover.KindStart, c.base, nil)
	policy := d.policy
	m.GPU, m.Channel, m.PID, m.Comm, m.Policy = d.config.GPU, c.index, w.pid, w.comm, &policy
	m.Files.State = true
	fds = append(fds, w.state.FD())
	mover, err := d.connectMover()
	if err != nil {
		return err
	}
	if mover != nil {
		defer mover.Close()
		m.Files.Conn = true
		fds = append(fds, int(mover.Fd()))
	}
	regions, files := handover.Describe(d.mapped.Regions())
	m.Memory, m.Files.Memory = regions, len(files)
	return w.conn.request(m, append(fds, files...), handover.KindReady, d.config.Timeouts.Start)
}

// await waits for a worker's end and takes its queue back.
func (d *Device) await(w *workerProcess) {
	defer d.workers.Done()
	defer close(w.gone)
	err := w.proc.Wait()
	close(w.exited)
	w.conn.close()
	d.exports.ended(w)
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.channel == nil {
		d.dropWarm(w, err)
	} else {
		d.takeBack(w, err)
	}
	w.ended = true
	w.state.Close()
}

// takeBack takes the queue of a worker that has ended.
func (d *Device) takeBack(w *workerProcess, err error) {
	d.tellMover() // copies that the worker started end before its pages go back to the guest
	c := w.channel
	log := d.log.WithFields(logrus.Fields{"channel": c.index, "program": w.comm})
	sayEnded(log, "worker", err, w.killed.Load())
	d.ended.Add(w.state.Counters())
	if c.worker != w { // the queue is another driver's by now
		return
	}
	c.worker, c.paused = nil, nil
	if d.beginCold(w) {
		return
	}
	c.base, c.held, c.unsure = w.state.Base(), d.heldBy(w, c), true
	d.reclaim(c)
}

// maxQueue is the largest queue that there is.
const maxQueue = 32768

// closeChannel ends a channel's worker. When it returns, nothing touches the channel's pages and all its chains
// are returned.
func (d *Device) closeChannel(index int) uint32 {
	d.mu.Lock()
	c := d.channels[index]
	w := c.worker
	if c.cold = nil; w != nil {
		w.closing = true
	}
	d.mu.Unlock()
	if w != nil {
		if err := w.conn.request(&handover.Message{Kind: handover.KindStop}, nil, handover.KindStopped, d.config.Timeouts.Stop); err != nil && !w.killed.Load() {
			d.log.WithField("channel", index).WithError(err).Warn("worker did not stop: it is killed")
		}
		w.kill()
		<-w.gone
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaitLinger()
	d.reclaim(c)
	return wire.StatusOk
}
