// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mapleave"
)

// Worker is a worker's process.
type Worker struct {
	Policy handover.Policy // with which it was started
	Ahead  bool            // it was started ahead of use
	Home   int             // the GPU for which it was warm then, if that is known
	Offers exports.Worker  // what it offers others

	config *Config
	conn   *child.Conn
	proc   child.Process
	began  chan struct{} // closed when it serves a channel, or can't
	exited chan struct{} // closed when the process has ended
	gone   chan struct{} // closed when what it had is taken back, too
	log    atomic.Pointer[logrus.Entry]

	rings   rings
	asked   atomic.Bool                      // whether it can ask for mappings was settled
	decider atomic.Pointer[mapleave.Decider] // decides on its mappings; nil: it has the files

	killed  atomic.Bool
	retired atomic.Bool // it needs no successor
	over    atomic.Bool // its process has ended, and nothing of its work goes on

	mu      sync.Mutex
	state   *handover.State // nil once it is unmapped; guarded by mu, as is what follows
	program Program
	channel int  // that it serves; -1: none
	stuck   bool // it was killed and did not end in time
}

// await waits for its end.
func (w *Worker) await() {
	defer close(w.gone)
	defer w.closeState()
	err := w.proc.Wait()
	w.over.Store(true)
	if d := w.decider.Load(); d != nil {
		d.Close()
	}
	w.config.Exited(w)
	close(w.exited)
	w.conn.Close()
	if w.Stuck() {
		w.Log().Warn("a worker that did not end when it was killed has ended")
	}
	w.config.Ended(w, err)
}

func (w *Worker) closeState() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Close()
	w.state = nil
}

// State calls f with the worker's notes, which are hostile; it returns false once the worker is
// gone. f must call no method of the worker.
func (w *Worker) State(f func(*handover.State)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == nil {
		return false
	}
	f(w.state)
	return true
}

// Base is the avail index of the next chain that it takes.
func (w *Worker) Base() (base uint16) {
	w.State(func(s *handover.State) { base = s.Base() })
	return base
}

// InFlight are the heads below size that it has taken and not returned.
func (w *Worker) InFlight(size uint16) (heads []uint16) {
	w.State(func(s *handover.State) { heads = s.InFlight(size) })
	return heads
}

// Counters are what it has counted; empty once it is gone.
func (w *Worker) Counters() (c handover.Counters) {
	w.State(func(s *handover.State) { c = s.Counters() })
	return c
}

// Fixed is what keeps its program from being moved, by kind.
func (w *Worker) Fixed() (all map[string]uint64) {
	w.State(func(s *handover.State) {
		counts := s.Fixed()
		all = counts.Map()
	})
	return all
}

// AsksCold says whether it has done nothing for its program yet, and another one that begins cold
// may.
func (w *Worker) AsksCold() (asks bool) {
	w.State(func(s *handover.State) { asks = s.AskedCold() })
	return asks
}

// Serve says which channel it is to serve, and its program.
func (w *Worker) Serve(channel int, p Program) {
	w.mu.Lock()
	w.channel, w.program = channel, p
	w.mu.Unlock()
	w.log.Store(w.config.Log.WithFields(logrus.Fields{"channel": channel, "program": p.Name}))
}

// Channel is the one that it serves, or did; -1: none.
func (w *Worker) Channel() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.channel
}

// Begun is told that it serves its program, or can't.
func (w *Worker) Begun() { close(w.began) }

// AwaitBegun waits for that, which comes soon if it was told to serve a channel.
func (w *Worker) AwaitBegun() { <-w.began }

// Program is the one that it serves.
func (w *Worker) Program() Program {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.program
}

// String is its program.
func (w *Worker) String() string { return w.Program().String() }

// Log is for lines about it.
func (w *Worker) Log() *logrus.Entry { return w.log.Load() }

// Kill ends the worker, and doesn't wait. A reason that the VM's owner should know is logged by the
// caller: the end itself isn't.
func (w *Worker) Kill() {
	w.killed.Store(true)
	w.proc.Kill()
}

// Killed says whether it was killed.
func (w *Worker) Killed() bool { return w.killed.Load() }

// Retire says that it needs no successor.
func (w *Worker) Retire() { w.retired.Store(true) }

// Retired says whether Retire was called.
func (w *Worker) Retired() bool { return w.retired.Load() }

// Ended says whether its process has ended.
func (w *Worker) Ended() bool { return w.over.Load() }

// Gone is closed when it has ended, and what it had is taken back.
func (w *Worker) Gone() <-chan struct{} { return w.gone }

// Exited is closed when its process has ended.
func (w *Worker) Exited() <-chan struct{} { return w.exited }

// PID is its number on the host; false: it has none.
func (w *Worker) PID() (int, bool) {
	if p, ok := w.proc.(interface{ PID() int }); ok {
		return p.PID(), true
	}
	return 0, false
}

// AwaitEnd waits until a killed worker is gone, for as long as a process may take. If it doesn't
// end, that is logged once.
func (w *Worker) AwaitEnd() bool {
	if w.Stuck() {
		return await.Closed(w.gone)
	}
	if await.Within(w.config.Limits.Exit, w.gone) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !await.Closed(w.exited) && !w.stuck { // otherwise it is the mover that hasn't ended
		w.stuck = true
		w.Log().Error("a worker that was killed does not end: " +
			"its program's memory stays pinned; see the kernel's log")
	}
	return false
}

// Stuck says whether it was killed and did not end in time.
func (w *Worker) Stuck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stuck
}
