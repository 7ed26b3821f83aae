// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// hostFuncs are host functions of the guest: a stream waits until a thread of the guest's library has run one.
//
// Which is due stands in a slot that is kept for that (wire.HostSlot), one at a time; the guest says in
// arena_header.host_done that it has returned. No command is involved, and the loop isn't needed: it may be inside a
// driver call that waits, directly or not, for the very stream that waits for the function. A goroutine looks after
// both words then; otherwise the loop does, which is quicker.
type hostFuncs struct {
	busy atomic.Bool // a function is due or runs

	mu      sync.Mutex // guards what follows
	due     []dueFunc  // functions whose turn has come, filled by the driver's threads
	release map[uint64]func()
	kept    map[uint64]struct{} // functions of graphs
	runs    bool
	running dueFunc
	seq     uint32            // of the one that runs, or ran last
	failed  gpubackend.Result // what killed the context
	told    bool              // the guest knows
	held    bool              // the guest's memory must be left alone

	// Made with the goroutine, on first use.
	work chan struct{} // wakes it
	quit chan struct{} // ends it
}

// dueFunc is a function that is due, and lets the stream go on when it has run.
type dueFunc struct {
	token   uint64
	release func()
}

// maxHostFuncs bounds the functions that a guest may have queued, and those that its graphs may have.
const maxHostFuncs = 1 << 16

// runHostFunc queues a host function.
func (w *Worker) runHostFunc(c *call.Call, a command.HostFunc) gpubackend.Result {
	s, result := w.streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	token := a.Token
	if token&keptToken != 0 {
		call, result := w.keepHostFunc(token)
		if result != gpubackend.Success {
			return result
		}
		return w.driver.HostFuncKept(s, token, call)
	}
	h := &w.hostFuncs
	h.start(w)
	if !h.add(token) {
		return gpubackend.InvalidValue
	}
	release, result := w.driver.HostFunc(s, token, w.hostFuncDue)
	h.added(token, release, result)
	return result
}

// keepHostFunc gives what is called when a function of a graph is due. The function is kept as long as the worker lives:
// nobody says when the last graph with it is gone.
func (w *Worker) keepHostFunc(token uint64) (gpubackend.HostCall, gpubackend.Result) {
	h := &w.hostFuncs
	h.start(w)
	if !h.keep(token) {
		return nil, gpubackend.OutOfMemory
	}
	return w.hostNodeDue, gpubackend.Success
}

// keep counts a function of a graph, once.
func (h *hostFuncs) keep(token uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.kept[token]; !known && len(h.kept) >= maxHostFuncs {
		return false
	}
	if h.kept == nil {
		h.kept = map[uint64]struct{}{}
	}
	h.kept[token] = struct{}{}
	return true
}

// add makes a place for a function.
func (h *hostFuncs) add(token uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, used := h.release[token]; token == 0 || used || len(h.release) >= maxHostFuncs {
		return false
	}
	if h.release == nil {
		h.release = map[uint64]func(){}
	}
	h.release[token] = nil
	return true
}

// added fills the place: the function may be due already, but isn't given to the guest before.
func (h *hostFuncs) added(token uint64, release func(), result gpubackend.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if result != gpubackend.Success {
		delete(h.release, token)
		return
	}
	h.release[token] = release
}

// hostFuncDue is called by the driver, on a thread of its own, when a function's turn has come.
func (w *Worker) hostFuncDue(token uint64) { w.hostNodeDue(token, nil) }

// hostNodeDue is the same for a function of a graph, which comes with its release since it is due as often as the graph
// runs.
func (w *Worker) hostNodeDue(token uint64, release func()) {
	h := &w.hostFuncs
	h.mu.Lock()
	h.due = append(h.due, dueFunc{token, release})
	h.mu.Unlock()
	h.stir()
	notify(w.wake)
}

// stir says that there is something to look after.
func (h *hostFuncs) stir() {
	h.busy.Store(true)
	select {
	case h.work <- struct{}{}:
	default:
	}
}

// start starts the goroutine. No function may get to the driver before.
func (h *hostFuncs) start(w *Worker) {
	if h.work == nil {
		h.work, h.quit = make(chan struct{}, 1), make(chan struct{})
		go h.serve(w, h.quit)
	}
}

// The goroutine looks again after a pause that grows while nothing happens.
const (
	minHostPause = 20 * time.Microsecond
	maxHostPause = time.Millisecond
)

// serve looks after the functions until quit is closed.
func (h *hostFuncs) serve(w *Worker, quit <-chan struct{}) {
	timer := time.NewTimer(maxHostPause)
	defer timer.Stop()
	for pause := minHostPause; ; {
		var again <-chan time.Time
		if h.busy.Load() {
			timer.Reset(pause)
			again = timer.C
		}
		select {
		case <-h.work:
			pause = minHostPause
		case <-again:
			pause = min(2*pause, maxHostPause)
		case <-quit:
			return
		}
		if h.advance(w) {
			pause = minHostPause
		}
	}
}

// advance lets the stream of a function that has returned go on, and gives the guest the next. It says whether there was
// anything to do. Any goroutine may call it.
func (h *hostFuncs) advance(w *Worker) (moved bool) {
	if !h.busy.Load() {
		return false
	}
	h.mu.Lock()
	if h.held {
		h.mu.Unlock()
		return false
	}
	var release func()
	if h.runs && w.arena.HostDone() == h.seq {
		h.runs, release, moved = false, h.running.release, true
	}
	if !h.runs && h.next(w) {
		moved = true
	}
	h.mu.Unlock()
	if release != nil {
		release() // may have the next function become due
	}
	return moved
}

// next gives the guest the function whose turn it is, if any.
func (h *hostFuncs) next(w *Worker) bool {
	switch {
	case len(h.due) > 0:
		f := h.due[0]
		if f.release == nil {
			release, ok := h.release[f.token]
			if ok && release == nil {
				return false // not quite added yet
			}
			delete(h.release, f.token)
			f.release = release
		}
		h.due = h.due[1:]
		h.running, h.runs = f, true
		h.tell(w, gpubackend.Success, f.token)
	case h.failed != gpubackend.Success && !h.told:
		h.told = true
		h.tell(w, h.failed, 0)
	default:
		h.due = nil
		h.busy.Store(false)
		return false
	}
	return true
}

// tell writes the slot.
func (h *hostFuncs) tell(w *Worker, result gpubackend.Result, token uint64) {
	h.seq++
	w.arena.Answer(wire.HostSlot, h.seq, int32(result), []uint64{token})
	w.chains.wakeSleepers()
}

// fail tells the guest, after all that is due, that no more functions will be: the context is dead.
func (h *hostFuncs) fail(result gpubackend.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.work != nil && !h.told {
		h.failed = result
		h.stir()
	}
}

// hold keeps everything but the caller from the guest's memory and the queue, until letGo.
func (h *hostFuncs) hold() { h.setHeld(true) }

func (h *hostFuncs) letGo() { h.setHeld(false) }

func (h *hostFuncs) setHeld(held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = held
}

// close ends the goroutine.
func (h *hostFuncs) close() {
	h.hold()
	if h.quit != nil {
		close(h.quit)
		h.quit = nil
	}
}
