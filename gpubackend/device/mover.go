// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// prepareMover has the mover started that a channel's worker will need, and waits for it without
// the lock, as it initialises CUDA first: the front end's messages need the lock, and its VM stands
// while it waits.
func (d *Device) prepareMover(c *channel) error {
	for {
		m, stopping, err := d.moverFor(c)
		switch {
		case m == nil || err != nil:
			return err
		case stopping:
			d.endMover(m) // it has no work
		default:
			<-m.ready
			return m.failure
		}
	}
}

// moverFor returns the mover, which it starts if there is none; nil for a channel that no worker is
// to be started for. One that is stopping has to end first.
func (d *Device) moverFor(c *channel) (m *moverProcess, stopping bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.lease == nil || d.mapped == nil || c.worker != nil {
		return nil, false, nil
	}
	if d.mover == nil || isClosed(d.mover.exited) || d.mover.failed() {
		if err := d.startMover(); err != nil {
			return nil, false, err
		}
	}
	return d.mover, d.mover.stopping, nil
}

// errNoMover is that the mover ended, or another one starts.
var errNoMover = errors.New("the mover is not ready")

// connectMover returns a worker's end of a connection to the VM's mover, for which prepareMover has
// waited.
func (d *Device) connectMover() (*os.File, error) {
	m := d.mover
	if m == nil || !isClosed(m.ready) || m.failure != nil || m.stopping {
		return nil, errNoMover
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	worker := os.NewFile(uintptr(fds[0]), "mover")
	defer unix.Close(fds[1])
	attach := &handover.Message{Kind: handover.KindAttach, Files: handover.Files{Conn: true}}
	if err := m.conn.tell(attach, fds[1:]); err != nil {
		worker.Close()
		return nil, fmt.Errorf("attach to the mover: %w", err)
	}
	return worker, nil
}

// refuseOffer is for children that have nothing to offer.
func refuseOffer(_ *handover.Message, fds []int) { handover.CloseFiles(fds) }

// startMover starts the mover, and doesn't wait until it is ready.
func (d *Device) startMover() error {
	conn, remote, err := handover.Pair()
	if err != nil {
		return err
	}
	defer remote.Close()
	proc, err := d.config.Spawn.Mover(remote)
	if err != nil {
		conn.Close()
		return err
	}
	m := &moverProcess{
		conn: d.newRequester(conn, refuseOffer), proc: proc,
		ready: make(chan struct{}), exited: make(chan struct{}),
	}
	regions, files := handover.Describe(d.mapped.Regions())
	policy := d.policy
	start := &handover.Message{
		Kind: handover.KindStart, GPU: d.config.GPU, Policy: &policy, Memory: regions,
		Files: handover.Files{Memory: len(files)},
	}
	fds := d.holdings.Pass(start, start.GiveLog(d.dirty.Log(), nil), ledger.Mover)
	started, err := m.conn.ask(start, append(fds, files...))
	if err != nil {
		proc.Kill()
		_ = proc.Wait()
		conn.Close()
		return err
	}
	d.mover = m
	d.running.add(2)
	go d.guard("the mover's start", func() {
		defer d.running.done()
		defer close(m.ready)
		if m.failure = started(handover.KindReady, d.config.Timeouts.Start); m.failure != nil {
			m.kill()
		}
	})
	go d.guard("the mover's end", func() { d.awaitMover(m) })
	return nil
}

// awaitMover waits for the mover's end. Copies in progress fail, and the next worker gets a new
// mover.
func (d *Device) awaitMover(m *moverProcess) {
	defer d.running.done()
	err := m.proc.Wait()
	m.conn.close()
	if !m.conn.quiet.Load() {
		d.markAll()
	}
	close(m.exited)
	d.mu.Lock()
	defer d.mu.Unlock()
	sayEnded(d.log, "mover", err, m.killed.Load())
	if d.mover == m {
		d.mover = nil
	}
	if d.mover == nil { // another one's memory isn't told from this one's
		d.holdings.End(ledger.Mover)
	}
	d.endLinger(m)
}

// endMover kills a mover, and waits for its end as long as a process may take for it.
//
// One that doesn't end lingers: its workers' pages are held back until it has.
func (d *Device) endMover(m *moverProcess) {
	m.kill()
	if within(d.config.Timeouts.Exit, m.exited) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if isClosed(m.exited) || slices.Contains(d.linger, m) {
		return
	}
	d.log.Error("a mover that was killed does not end: " +
		"memory of programs that end stays pinned; see the kernel's log")
	if d.mover == m {
		d.mover = nil
	}
	d.linger = append(d.linger, m)
}

// endLinger gives back what waited for the end of a mover.
func (d *Device) endLinger(m *moverProcess) {
	i := slices.Index(d.linger, m)
	if i < 0 {
		return
	}
	d.linger = slices.Delete(d.linger, i, i+1)
	if !m.left {
		d.log.Warn("a mover that did not end when it was killed has ended")
	}
	for _, c := range d.channels {
		if c.owed {
			d.reclaim(c)
		}
	}
}

// awaitLinger waits until no mover lingers. It gives up Device.mu meanwhile.
func (d *Device) awaitLinger() {
	for len(d.linger) > 0 {
		m := d.linger[0]
		d.mu.Unlock()
		d.park(m.exited)
		d.mu.Lock()
		d.endLinger(m) // awaitMover may not have come to it
	}
}
