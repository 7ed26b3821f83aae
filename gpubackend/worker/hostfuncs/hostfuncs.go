// SPDX-License-Identifier: Apache-2.0

package hostfuncs

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// KeptToken marks the tokens of functions in graphs.
const KeptToken = 1 << wire.KeptTokenBit

// Driver is what HostFuncs use of gpubackend.Driver.
type Driver interface {
	HostFunc(s gpubackend.Stream, token uint64, f func(token uint64)) (release func(),
		result gpubackend.Result)
	HostFuncKept(s gpubackend.Stream, token uint64, f gpubackend.HostCall) gpubackend.Result
}

// Streams finds a stream that the guest names.
type Streams interface {
	Find(c *call.Call, handle uint64) (gpubackend.Stream, gpubackend.Result)
}

// Arena is the part of the arena that host functions use.
type Arena interface {
	HostDone() uint32
	Answer(slot uint16, seq uint32, result int32, words []uint64)
}

// Config is what HostFuncs need. The functions in it may be called on any goroutine.
type Config struct {
	Driver  Driver
	Streams Streams
	Arena   func() Arena
	// WakeGuest wakes the guest's sleeping threads, after an answer was written.
	WakeGuest func()
	// WakeLoop wakes the worker's loop.
	WakeLoop func()
}

// HostFuncs are host functions of the guest.
type HostFuncs struct {
	Config
	busy atomic.Bool // a function is due or runs

	mu      sync.Mutex // guards what follows
	due     []dueFunc  // functions whose turn has come, filled by the driver's threads
	release map[uint64]func()
	kept    map[uint64]struct{} // functions of graphs
	runs    bool
	running dueFunc
	seq     uint32            // of the function that runs, or ran last
	failed  gpubackend.Result // what killed the context
	told    bool              // the guest knows
	held    bool              // the guest's memory must not be touched

	// Made with the goroutine, at first use.
	work chan struct{} // wakes it
	quit chan struct{} // ends it
}

// dueFunc is a function that is due, and lets the stream go on when it has run.
type dueFunc struct {
	token   uint64
	release func()
}

// New returns HostFuncs without functions.
func New(c Config) *HostFuncs { return &HostFuncs{Config: c} }

// Handlers are the commands that HostFuncs execute.
func (h *HostFuncs) Handlers() call.Handlers {
	return call.Handlers{gpubackend.OpHostFunc: call.Decoded(command.DecodeHostFunc, h.queue)}
}

// Busy says whether a function is due or runs.
func (h *HostFuncs) Busy() bool { return h.busy.Load() }

// MaxFuncs bounds the functions that a guest may have queued, and those that its graphs may have.
const MaxFuncs = 1 << 16

// queue queues a host function.
func (h *HostFuncs) queue(c *call.Call, a command.HostFunc) gpubackend.Result {
	s, result := h.Streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	token := a.Token
	if token&KeptToken != 0 {
		kept, result := h.Keep(token)
		if result != gpubackend.Success {
			return result
		}
		return h.Driver.HostFuncKept(s, token, kept)
	}
	h.start()
	if !h.add(token) {
		return gpubackend.InvalidValue
	}
	release, result := h.Driver.HostFunc(s, token, h.isDue)
	h.added(token, release, result)
	return result
}

// Keep returns what is called when a function of a graph is due. The function is kept as long as
// the worker lives, since nobody says when the last graph with it is gone.
func (h *HostFuncs) Keep(token uint64) (gpubackend.HostCall, gpubackend.Result) {
	h.start()
	if !h.keep(token) {
		return nil, gpubackend.OutOfMemory
	}
	return h.nodeIsDue, gpubackend.Success
}

// keep counts a function of a graph once.
func (h *HostFuncs) keep(token uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.kept[token]; !known && len(h.kept) >= MaxFuncs {
		return false
	}
	if h.kept == nil {
		h.kept = map[uint64]struct{}{}
	}
	h.kept[token] = struct{}{}
	return true
}

// add makes a place for a function, to be filled by added.
func (h *HostFuncs) add(token uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, used := h.release[token]; token == 0 || used || len(h.release) >= MaxFuncs {
		return false
	}
	if h.release == nil {
		h.release = map[uint64]func(){}
	}
	h.release[token] = nil
	return true
}

// added fills the place. The function may be due already, but is given to the guest only now.
func (h *HostFuncs) added(token uint64, release func(), result gpubackend.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if result != gpubackend.Success {
		delete(h.release, token)
		return
	}
	h.release[token] = release
}

// isDue is called by the driver, on a thread of its own, when a function's turn has come.
func (h *HostFuncs) isDue(token uint64) { h.nodeIsDue(token, nil) }

// nodeIsDue is isDue for a function of a graph. Each time it is due it comes with a release of its
// own, since the graph may run often.
func (h *HostFuncs) nodeIsDue(token uint64, release func()) {
	h.mu.Lock()
	h.due = append(h.due, dueFunc{token, release})
	h.mu.Unlock()
	h.stir()
	h.WakeLoop()
}

// stir says that there is something to do.
func (h *HostFuncs) stir() {
	h.busy.Store(true)
	select {
	case h.work <- struct{}{}:
	default:
	}
}

// start starts the goroutine. No function may get to the driver before.
func (h *HostFuncs) start() {
	if h.work == nil {
		h.work, h.quit = make(chan struct{}, 1), make(chan struct{})
		go h.serve(h.quit)
	}
}

// The goroutine looks again after pauses that grow while nothing happens.
const (
	minHostPause = 20 * time.Microsecond
	maxHostPause = time.Millisecond
)

// serve looks after the functions until quit is closed.
func (h *HostFuncs) serve(quit <-chan struct{}) {
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
		if h.Advance() {
			pause = minHostPause
		}
	}
}

// Advance lets the stream of a function that has returned go on, and gives the guest the next. It
// says whether there was anything to do. Any goroutine may call it.
func (h *HostFuncs) Advance() (moved bool) {
	if !h.busy.Load() {
		return false
	}
	h.mu.Lock()
	if h.held {
		h.mu.Unlock()
		return false
	}
	var release func()
	if h.runs && h.Arena().HostDone() == h.seq {
		h.runs, release, moved = false, h.running.release, true
	}
	if !h.runs && h.next() {
		moved = true
	}
	h.mu.Unlock()
	if release != nil {
		release() // may make the next function due
	}
	return moved
}

// next gives the guest the function whose turn it is, if any.
func (h *HostFuncs) next() bool {
	switch {
	case len(h.due) > 0:
		f := h.due[0]
		if f.release == nil {
			release, ok := h.release[f.token]
			if ok && release == nil {
				return false // it isn't added yet
			}
			delete(h.release, f.token)
			f.release = release
		}
		h.due = h.due[1:]
		h.running, h.runs = f, true
		h.tell(gpubackend.Success, f.token)
	case h.failed != gpubackend.Success && !h.told:
		h.told = true
		h.tell(h.failed, 0)
	default:
		h.due = nil
		h.busy.Store(false)
		return false
	}
	return true
}

// tell writes the slot.
func (h *HostFuncs) tell(result gpubackend.Result, token uint64) {
	h.seq++
	h.Arena().Answer(wire.HostSlot, h.seq, int32(result), []uint64{token})
	h.WakeGuest()
}

// Fail tells the guest, after all that is due, that no more functions will come: the context is
// dead.
func (h *HostFuncs) Fail(result gpubackend.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.work != nil && !h.told {
		h.failed = result
		h.stir()
	}
}

// Hold keeps everything but the caller from the guest's memory and the queue, until LetGo.
func (h *HostFuncs) Hold() { h.setHeld(true) }

// LetGo undoes it.
func (h *HostFuncs) LetGo() { h.setHeld(false) }

func (h *HostFuncs) setHeld(held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = held
}

// Close ends the goroutine.
func (h *HostFuncs) Close() {
	h.Hold()
	if h.quit != nil {
		close(h.quit)
		h.quit = nil
	}
}

// Told is how many functions the guest was told of, and whether one is still to come or to return.
func (h *HostFuncs) Told() (seq uint32, waits bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seq, h.runs || len(h.due) > 0 || len(h.release) > 0
}

// GoOn says how many functions another worker has told the guest of.
func (h *HostFuncs) GoOn(seq uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq = seq
}
