// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/passes"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/lanes"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// slowest is the number of bytes that a worker must at least move in a second: a slower one hangs.
const slowest = 100 << 20

// MovingTakes is how long a worker may take to move so much.
func MovingTakes(bytes uint64) time.Duration {
	return time.Duration(bytes/slowest) * time.Second
}

// patience is how many times longer than for other answers a worker that moves memory is waited
// for: it may be short of processors and of the host's memory, and is killed when time is up.
const patience = 3

// Drain implements suspend.Worker. It waits for one that is starting.
func (w *Worker) Drain(turn uint64, grace time.Duration, whole bool) (uint64, error) {
	<-w.began
	m := handover.Message{Kind: handover.KindDrain, Grace: grace, Turn: turn, Whole: whole}
	a, err := w.conn.Consult(&m, nil, handover.KindDrained, grace+w.config.Limits.Answer)
	switch {
	case err == nil:
		return a.Bytes, nil
	case w.isGone(err):
		return 0, suspend.ErrEnded
	case a != nil && a.Busy:
		return 0, worksOn{err}
	}
	return 0, err
}

// worksOn is the error of a worker whose work goes on.
type worksOn struct{ error }

func (w worksOn) Unwrap() []error { return []error{w.error, suspend.ErrBusy} }

// EndBusy implements suspend.Worker.
func (w *Worker) EndBusy() {
	if !w.Killed() {
		w.Log().Warn("the VM is suspended with --kill, and the program's work goes on for longer " +
			"than stop-grace: the program's worker is killed")
		w.Kill()
	}
	w.AwaitEnd()
}

// toSay is how long a worker may take to say whether its program could be saved. It looks at the
// code that the program has loaded.
const toSay = 2 * time.Second

// Movable implements saving.Worker.
func (w *Worker) Movable() string {
	select {
	case <-w.began:
	default:
		return ""
	}
	m := handover.Message{Kind: handover.KindMovable, Turn: rand.Uint64() | 1<<63}
	a, err := w.conn.Consult(&m, nil, handover.KindMoves, toSay)
	if err != nil {
		w.Log().WithError(err).Debug("a worker doesn't say whether its program could be saved")
		return ""
	}
	return a.Reason
}

// MoveOut implements suspend.Worker.
func (w *Worker) MoveOut(bytes uint64, keep bool) (c suspend.Carried, err error) {
	m := handover.Message{Kind: handover.KindMoveOut, Bytes: bytes, Keep: keep}
	a, err := w.moved(bytes, &m, handover.KindMovedOut)
	if err != nil {
		return c, err
	}
	return suspend.Carried{Unchanged: a.Unchanged, Keeps: a.Keep}, nil
}

// Forget implements suspend.Worker.
func (w *Worker) Forget() {
	if !w.Ended() {
		w.Tell(&handover.Message{Kind: handover.KindForget}, nil)
	}
}

// MoveBack implements suspend.Worker.
func (w *Worker) MoveBack(bytes uint64) error {
	return w.move(bytes, &handover.Message{Kind: handover.KindMoveOut}, handover.KindMovedOut)
}

// MoveIn implements suspend.Worker.
func (w *Worker) MoveIn(bytes uint64) error {
	return w.move(bytes, &handover.Message{Kind: handover.KindMoveIn}, handover.KindMovedIn)
}

// move makes the worker move its memory.
func (w *Worker) move(bytes uint64, m *handover.Message, want handover.Kind) error {
	_, err := w.moved(bytes, m, want)
	return err
}

// moved takes its answer. A worker that hangs is killed, since nobody knows what it has done.
func (w *Worker) moved(
	bytes uint64, m *handover.Message, want handover.Kind,
) (*handover.Message, error) {
	a, err := w.conn.Consult(m, nil, want, patience*w.config.Limits.Answer+MovingTakes(bytes))
	switch {
	case err == nil:
		return a, nil
	case w.isGone(err):
		return nil, suspend.ErrEnded
	case errors.Is(err, child.ErrRefused):
		return nil, err
	}
	w.Log().WithError(err).WithField("program", w.Program().Name).
		Warn("a worker doesn't move device memory: it is killed")
	w.Kill()
	w.AwaitEnd()
	return nil, suspend.ErrEnded
}

// isGone says whether the worker has ended, or is about to, given the error with which it failed.
func (w *Worker) isGone(err error) bool {
	if errors.Is(err, child.ErrGone) {
		w.endSilent()
		return true
	}
	return w.Killed() || w.Retired() && await.Within(w.config.Limits.Stop, w.gone) ||
		await.Within(child.LastWords, w.gone)
}

// endSilent ends a worker whose connection is closed, unless it ends by itself: it may only have
// closed its end, or said what is no message, to pass for one that is gone.
func (w *Worker) endSilent() {
	if await.Within(child.LastWords, w.gone) {
		return
	}
	if !w.Killed() {
		w.Log().Warn("a worker is heard no more, and hasn't ended: it is killed")
		w.Kill()
	}
	w.AwaitEnd()
}

// TryAgain implements place.Worker.
func (w *Worker) TryAgain(why string) {
	if !w.Ended() {
		w.Tell(&handover.Message{Kind: handover.KindRoom, Error: why}, nil)
	}
}

// Save implements saving.Worker.
func (w *Worker) Save(to *lanes.Far, bytes uint64, rest savedvm.Rest) error {
	early, fds := rest == savedvm.Early, to.FDs()
	m := handover.Message{Kind: handover.KindSave, Ahead: early || rest == savedvm.Ahead,
		Filed: early || rest == savedvm.Filed, Files: handover.Files{Lanes: len(fds)}}
	err := w.conn.Request(&m, fds, handover.KindSaved,
		w.config.Limits.Answer+RecordTakes(bytes))
	if err != nil && !errors.Is(err, child.ErrRefused) && w.isGone(err) {
		return suspend.ErrEnded
	}
	return err
}

// Join implements saving.Worker.
func (w *Worker) Join() error {
	m := handover.Message{Kind: handover.KindJoin}
	err := w.conn.Request(&m, nil, handover.KindJoined, patience*w.config.Limits.Answer)
	if err != nil && !errors.Is(err, child.ErrRefused) && w.isGone(err) {
		return suspend.ErrEnded
	}
	return err
}

// Precopy implements passes.Worker.
func (w *Worker) Precopy(
	buffer *os.File, filed bool,
) (sectors []uint64, over bool, err error) {
	m, fds := handover.Message{Kind: handover.KindPrecopy, Filed: filed}, []int(nil)
	if buffer != nil {
		m.Files.Object, fds = true, []int{int(buffer.Fd())}
	}
	a, err := w.conn.Consult(&m, fds, handover.KindPrecopied, w.config.Limits.Answer)
	switch {
	case errors.Is(err, child.ErrRefused):
		return nil, false, fmt.Errorf("%w: %w", passes.ErrNone, err)
	case err != nil:
		return nil, false, err
	}
	return a.Sectors, a.Over, nil
}

// PrecopyOver implements passes.Worker.
func (w *Worker) PrecopyOver() {
	if w.Ended() {
		return
	}
	m := handover.Message{Kind: handover.KindPrecopy, Over: true}
	err := w.conn.Request(&m, nil, handover.KindPrecopied, w.config.Limits.Answer)
	if err != nil {
		w.Log().WithError(err).Debug("a worker doesn't forget what it has copied ahead")
	}
}

// slowestRecord is the number of bytes of a record that must at least pass in a second: it may go
// to a slow disk, or far away.
const slowestRecord = 1 << 20

// RecordTakes is how long a worker may take to write or read so much.
func RecordTakes(bytes uint64) time.Duration {
	return time.Duration(bytes/slowestRecord) * time.Second
}
