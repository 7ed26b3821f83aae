// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// A VM is suspended in steps, each of which all workers take before the next (package suspend).
// Workers that end meanwhile need nothing more; those that start begin as ones whose work has
// ended.

// slowest is how many bytes are moved in a second at the least: a worker that takes longer hangs.
const slowest = 100 << 20

// newSuspension makes what suspends the VM, from what that needs of it.
func (d *Device) newSuspension() *suspend.Suspension {
	return suspend.New(suspend.Config{
		Hold: d.hold, GoOn: d.goOn, Guard: d.guard, Log: d.log,
		Terms: func() (time.Duration, uint64) {
			s := &d.settings.Now().Settings
			return s.StopGrace, s.SuspendMemory
		},
		Room:  func() (uint64, error) { return d.config.HostMemory() },
		Stays: d.accounts.Sum,
	})
}

// hold ends the warm workers, and answers those that serve a program.
func (d *Device) hold() (list []suspend.Worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.warm.Keep(0)
	for _, w := range d.channels.serving() {
		list = append(list, w)
	}
	return list
}

// goOn has all workers go on.
func (d *Device) goOn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.channels.serving() {
		w.tell(&handover.Message{Kind: handover.KindGoOn}, nil)
	}
	d.refill()
}

// What follows is a worker as packages suspend and place see it.

// Drain implements suspend.Worker. One that starts is waited for.
func (w *workerProcess) Drain(turn uint64, grace time.Duration, whole bool) (uint64, error) {
	<-w.start
	m := handover.Message{Kind: handover.KindDrain, Grace: grace, Turn: turn, Whole: whole}
	a, err := w.conn.Consult(&m, nil, handover.KindDrained, grace+w.limits.Answer)
	switch {
	case err == nil:
		return a.Bytes, nil
	case w.isGone(err):
		return 0, suspend.ErrEnded
	}
	return 0, err
}

// MoveOut implements suspend.Worker.
func (w *workerProcess) MoveOut(bytes uint64) error {
	m := handover.Message{Kind: handover.KindMoveOut, Bytes: bytes}
	return w.move(bytes, &m, handover.KindMovedOut)
}

// MoveBack implements suspend.Worker.
func (w *workerProcess) MoveBack(bytes uint64) error {
	return w.move(bytes, &handover.Message{Kind: handover.KindMoveOut}, handover.KindMovedOut)
}

// MoveIn implements suspend.Worker.
func (w *workerProcess) MoveIn(bytes uint64) error {
	return w.move(bytes, &handover.Message{Kind: handover.KindMoveIn}, handover.KindMovedIn)
}

// move has the worker move its memory. One that hangs is killed: nobody knows what it has done.
func (w *workerProcess) move(bytes uint64, m *handover.Message, want handover.Kind) error {
	limit := w.limits.Answer + time.Duration(bytes/slowest)*time.Second
	err := w.conn.Request(m, nil, want, limit)
	switch {
	case err == nil:
		return nil
	case w.isGone(err):
		return suspend.ErrEnded
	case errors.Is(err, child.ErrRefused):
		return err
	}
	w.log.Load().WithError(err).WithField("program", w.comm).Warn("a worker doesn't move device " +
		"memory: it is killed")
	w.kill()
	w.awaitEnd()
	return suspend.ErrEnded
}

// isGone says whether the worker, which didn't do what it was asked, and why, has ended or is about
// to.
func (w *workerProcess) isGone(err error) bool {
	return w.killed.Load() || errors.Is(err, child.ErrGone) ||
		w.closing.Load() && await.Within(w.limits.Stop, w.gone) ||
		await.Within(child.LastWords, w.gone)
}

// Ended implements suspend.Worker.
func (w *workerProcess) Ended() bool {
	return w.over.Load()
}

// String implements suspend.Worker.
func (w *workerProcess) String() string { return w.program.String() }
