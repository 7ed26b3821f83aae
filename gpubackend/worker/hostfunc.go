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
	due []uint64 // guarded by mu: tokens whose turn has come, filled by the driver's threads

	release map[uint64]func()
	waiting bool
	slot    uint16
	seq     uint32
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
func (w *Worker) hostFuncDue(token uint64) {
	h := &w.hostFuncs
	h.mu.Lock()
	h.due = append(h.due, token)
	h.mu.Unlock()
	notify(w.wake)
}

// runHostFuncDone lets a stream go on and waits for the next function: the token that is done, or 0.
func runHostFuncDone(w *Worker, c *call) gpubackend.Result {
	h := &w.hostFuncs
	if h.waiting || c.flags&wire.CommandFlagReply == 0 {
		return gpubackend.NotPermitted
	}
	if token := c.word(0); token != 0 {
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
	token := h.take()
	if token == 0 {
		return false
	}
	h.waiting = false
	w.finish(h.slot, h.seq, true, gpubackend.Success, []uint64{token})
	return true
}

func (h *hostFuncs) take() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.due) == 0 {
		return 0
	}
	token := h.due[0]
	h.due = h.due[1:]
	return token
}

// active says whether any function is queued.
func (h *hostFuncs) active() bool { return len(h.release) > 0 }
