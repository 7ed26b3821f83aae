// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"sync"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// hostFuncs are host functions of the guest: a stream waits until a thread of the guest's library has run one.
// The thread has one call outstanding (HostFuncDone), which is answered with the token of the next function.
type hostFuncs struct {
	mu  sync.Mutex
	due []dueFunc // guarded by mu: functions whose turn has come, filled by the driver's threads

	release map[uint64]func()
	running dueFunc // the one that the guest runs, if it is of a graph
	waiting bool
	slot    uint16
	seq     uint32
}

// dueFunc is a function that is due. One of a graph is due as often as the graph runs, and has its release with it.
type dueFunc struct {
	token   uint64
	release func()
}

// maxHostFuncs bounds the functions that a guest may have queued.
const maxHostFuncs = 1 << 16

// runHostFunc queues a host function: stream, token.
func runHostFunc(w *Worker, c *call) gpubackend.Result {
	s, result := w.findStream(c, c.word(0))
	if result != gpubackend.Success {
		return result
	}
	h := &w.hostFuncs
	token := c.word(1)
	if token&keptToken != 0 {
		return w.driver.HostFuncKept(s, token, w.hostNodeDue)
	}
	if h.release == nil {
		h.release = map[uint64]func(){}
	}
	if token == 0 || h.release[token] != nil || len(h.release) >= maxHostFuncs {
		return gpubackend.InvalidValue
	}
	release, result := w.driver.HostFunc(s, token, w.hostFuncDue)
	if result == gpubackend.Success {
		h.release[token] = release
	}
	return result
}

// hostFuncDue is called by the driver, on a thread of its own, when a function's turn has come.
func (w *Worker) hostFuncDue(token uint64) { w.hostNodeDue(token, nil) }

// hostNodeDue is the same for a function of a graph.
func (w *Worker) hostNodeDue(token uint64, release func()) {
	h := &w.hostFuncs
	h.mu.Lock()
	h.due = append(h.due, dueFunc{token, release})
	h.mu.Unlock()
	notify(w.wake)
}

// runHostFuncDone lets a stream go on and waits for the next function: the token that is done, or 0.
func runHostFuncDone(w *Worker, c *call) gpubackend.Result {
	h := &w.hostFuncs
	if h.waiting || c.flags&wire.CommandFlagReply == 0 {
		return gpubackend.NotPermitted
	}
	if token := c.word(0); token != 0 && token == h.running.token {
		h.running.release()
		h.running = dueFunc{}
	} else if token != 0 {
		release := h.release[token]
		if release == nil {
			return gpubackend.InvalidValue
		}
		delete(h.release, token)
		release()
	}
	h.waiting, h.slot, h.seq = true, c.slot, c.seq
	h.deliver(w)
	return pending
}

// deliver answers the waiting call if a function is due.
func (h *hostFuncs) deliver(w *Worker) bool {
	if !h.waiting {
		return false
	}
	due := h.take()
	if due.token == 0 {
		return false
	}
	if due.release != nil {
		h.running = due
	}
	h.waiting = false
	w.finish(h.slot, h.seq, true, gpubackend.Success, []uint64{due.token})
	return true
}

func (h *hostFuncs) take() dueFunc {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.due) == 0 {
		return dueFunc{}
	}
	due := h.due[0]
	h.due = h.due[1:]
	return due
}

// active says whether any function is queued.
func (h *hostFuncs) active() bool { return len(h.release) > 0 || h.running.token != 0 }
