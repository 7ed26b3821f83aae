// SPDX-License-Identifier: Apache-2.0

package device

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// open starts a worker for a channel and returns the status for the driver. It stops waiting when quit is closed.
func (d *Device) open(index int, pid int32, comm string, quit <-chan struct{}) uint32 {
	c := d.channels[index]
	d.awaitQueue(c, quit)
	d.mu.Lock()
	defer d.mu.Unlock()
	log := d.log.WithField("channel", index).WithField("program", comm)
	switch {
	case c.worker != nil:
		return wire.StatusBusy
	case c.lease == nil:
		return wire.StatusBadRequest
	}
	w, err := d.startWorker(c, pid, comm)
	if err != nil {
		log.WithError(err).Error("start a worker")
		return wire.StatusNoWorker
	}
	c.worker = w
	d.workers.Add(1)
	go d.await(c, w)
	log.Debug("channel is open")
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

// startWorker starts the process and hands the queue over.
func (d *Device) startWorker(c *channel, pid int32, comm string) (*workerProcess, error) {
	state, err := handover.NewState()
	if err != nil {
		return nil, err
	}
	state.SetBase(c.base)
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
	w := &workerProcess{conn: newRequester(conn, d.config.Timeouts.Answer), state: state, proc: proc, pid: pid, comm: comm, exited: make(chan struct{}), gone: make(chan struct{})}
	if err := d.handOver(c, w, pid, comm); err != nil {
		proc.Kill()
		_ = proc.Wait()
		conn.Close()
		state.Close()
		return nil, err
	}
	return w, nil
}

// handOver sends the start message with everything a worker needs.
func (d *Device) handOver(c *channel, w *workerProcess, pid int32, comm string) error {
	m, fds := c.lease.message(handover.KindStart, c.base, nil)
	policy := d.policy
	m.GPU, m.Channel, m.PID, m.Comm, m.Policy = d.config.GPU, c.index, pid, comm, &policy
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
func (d *Device) await(c *channel, w *workerProcess) {
	defer d.workers.Done()
	defer close(w.gone)
	err := w.proc.Wait()
	close(w.exited)
	w.conn.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mover != nil {
		// Copies that the worker started end before its pages go back to the guest.
		d.tellMemory(d.mover.conn, d.mover.kill)
	}
	if err != nil {
		d.log.WithField("channel", c.index).WithError(err).Info("worker ended")
	}
	d.ended.Add(w.state.Counters())
	if c.worker == w { // otherwise the queue is another driver's by now
		c.worker = nil
		c.base = w.state.Base()
		size := uint16(maxQueue)
		if c.lease != nil {
			size = c.lease.queue.Size
		}
		c.held = w.state.InFlight(size)
		d.reclaim(c)
	}
	w.state.Close()
}

// maxQueue is the largest queue that there is.
const maxQueue = 32768

// closeChannel ends a channel's worker. When it returns, nothing touches the channel's pages and all its chains
// are returned.
func (d *Device) closeChannel(index int) uint32 {
	d.mu.Lock()
	c := d.channels[index]
	w := c.worker
	d.mu.Unlock()
	if w != nil {
		if err := w.conn.request(&handover.Message{Kind: handover.KindStop}, nil, handover.KindStopped, d.config.Timeouts.Stop); err != nil {
			d.log.WithField("channel", index).WithError(err).Warn("worker did not stop: it is killed")
		}
		w.kill()
		<-w.gone
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reclaim(c)
	return wire.StatusOk
}
