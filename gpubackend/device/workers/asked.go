// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mapleave"
)

// Conn is its connection.
func (w *Worker) Conn() *child.Conn { return w.conn }

// BeginsToAsk says, once, that it is to be settled who decides on what it maps.
func (w *Worker) BeginsToAsk() bool { return !w.asked.Swap(true) }

// Confined says whether that is settled.
func (w *Worker) Confined() bool { return w.asked.Load() }

// AskedBy is told who decides on what it maps. The Worker closes it when the process has ended.
func (w *Worker) AskedBy(d *mapleave.Decider) {
	w.decider.Store(d)
	if w.Ended() {
		d.Close()
	}
}

// Asks says whether it asks for what it maps, and so gets no files of the guest's memory.
func (w *Worker) Asks() bool { return w.decider.Load() != nil }

// WithListener calls f with the descriptor by which its mappings are decided on, if it asks.
func (w *Worker) WithListener(f func(fd int)) {
	if d := w.decider.Load(); d != nil {
		d.WithFD(f)
	}
}

// Tell sends a message to which there is no answer. A worker that doesn't take it is killed. A
// killed one doesn't read any more.
func (w *Worker) Tell(m *handover.Message, fds []int) {
	if w.Killed() {
		return
	}
	if err := w.conn.Tell(m, fds); err != nil {
		w.Log().WithError(err).Info("a worker does not take a message: it is killed")
		w.Kill()
	}
}

// Obey waits until it has done what a message says. If it doesn't, that is logged.
func (w *Worker) Obey(
	m *handover.Message, fds []int, want handover.Kind, failure string,
) error {
	err := w.conn.Request(m, fds, want, w.config.Limits.Answer)
	if err != nil {
		w.Log().WithError(err).Warn(failure)
	}
	return err
}

// Pause waits until it stands still, for as long as its work may go on, and says whether it does.
// If it doesn't it must be killed. The channel that idle returns is closed when no device memory is
// being moved.
func (w *Worker) Pause(idle func() <-chan struct{}, grace time.Duration) bool {
	if w.Killed() {
		return false
	}
	if w.Retired() { // it ends anyway, as its program does
		return await.Within(w.config.Limits.Stop, w.gone)
	}
	<-w.began
	select { // a move that is under way isn't cut off
	case <-idle():
	case <-w.gone:
	}
	// Its end also ends other requests to it, for which this one may have to wait.
	late := time.AfterFunc(grace, w.Kill)
	err := w.conn.Request(&handover.Message{Kind: handover.KindPause, Grace: grace}, nil,
		handover.KindPaused, 2*grace)
	switch {
	case !late.Stop():
		w.Log().Warnf("the VM stops, and the program's work goes on for longer than "+
			"stop-grace=%v: the program's worker is killed", grace)
	case err != nil:
		w.Log().WithError(err).Info("a worker did not pause: it is killed")
	}
	return err == nil && !w.Killed()
}

// Stop ends it in an orderly way, or else kills it, and waits for its end as AwaitEnd does.
func (w *Worker) Stop() (ended bool) {
	if err := w.conn.Request(&handover.Message{Kind: handover.KindStop}, nil,
		handover.KindStopped, w.config.Limits.Stop); err != nil && !w.Killed() {
		w.Log().WithError(err).Warn("worker did not stop: it is killed")
	}
	w.Kill()
	return w.AwaitEnd()
}

// End ends it for good, and waits for its end as AwaitEnd does.
func (w *Worker) End() {
	w.Retire()
	w.Kill()
	w.AwaitEnd()
}

// TooHeavy says that it has too much of the host's memory, or its VM has, and must end.
func (w *Worker) TooHeavy(why string) {
	if !w.Killed() {
		w.Log().Error("the worker has " + why + ": it is killed")
		w.Kill()
	}
}

// TooMuch says that it holds far more memory than it counted, and must end.
func (w *Worker) TooMuch() {
	if !w.Killed() {
		w.Log().Warn("the GPU's driver has far more memory for the VM than it may have, " +
			"most of it for this program, which didn't count it: its worker is killed")
		w.Kill()
	}
}
