// SPDX-License-Identifier: Apache-2.0

// Package hostmemory registers memory of this process for the guest's kernels: pages of the
// guest's, mapped where the guest has them. If there is no context yet, the memory is for a
// library's managed variables; the driver is told of it as soon as there is one.
//
// Addresses come from the caller, which has mapped them; only what is registered may be copied
// (package copyable).
package hostmemory

import (
	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
)

// Calls are the functions of the driver that are called here.
type Calls interface {
	CtxSynchronize() gpubackend.Result
	MemHostRegister(addr, bytes uint64, writable bool) gpubackend.Result
	MemHostUnregister(addr uint64) gpubackend.Result
}

// HostMemory is what is registered, by address.
type HostMemory struct {
	calls      Calls
	contexts   *contexts.Contexts
	gpus       *gpus.List
	ranges     *copyable.Ranges
	capturing  func() bool
	log        *logrus.Entry
	registered map[uint64]registration
	pending    bool // the driver doesn't know all of it
}

// New returns the host memory of a process, none of it registered. capturing says whether any
// stream captures: then nobody may wait.
func New(
	calls Calls, x *contexts.Contexts, list *gpus.List, ranges *copyable.Ranges,
	capturing func() bool,
	log *logrus.Entry,
) *HostMemory {
	return &HostMemory{
		calls: calls, contexts: x, gpus: list, ranges: ranges, capturing: capturing, log: log,
		registered: make(map[uint64]registration),
	}
}

// Registered is how many ranges are registered.
func (h *HostMemory) Registered() int { return len(h.registered) }

// registration is memory of the guest's that HostRegister was told of.
type registration struct {
	bytes    uint64
	writable bool
	// early says that there was no context: the memory is for a library's managed variables. The
	// driver learns of it when there is a context, and again when that has ended and there is
	// another.
	early   bool
	context *contexts.Context // in which the driver knows it; nil for none
}

// HostRegister makes memory of this process, mapped where the guest has it, reachable for kernels.
// Without a context there are no kernels: then the driver is told when the memory is needed.
func (h *HostMemory) HostRegister(addr, bytes uint64, writable bool) gpubackend.Result {
	m := registration{bytes: bytes, writable: writable, early: h.contexts.Current() == nil}
	if !m.early {
		if r := h.register(addr, &m); r != gpubackend.Success {
			return r
		}
	}
	h.pending = h.pending || m.early
	h.registered[addr] = m
	h.ranges.Host.Put(copyable.Span{Base: addr, Bytes: bytes, Writable: writable})
	return gpubackend.Success
}

// register tells the driver of memory, in the current context. It refuses read-only memory if the
// driver can't register it as such, since kernels could write it.
func (h *HostMemory) register(addr uint64, m *registration) gpubackend.Result {
	c := h.contexts.Current()
	if !m.writable && !h.gpus.At(c.GPU).ReadOnlyRegister {
		return gpubackend.NotSupported
	}
	r := h.calls.MemHostRegister(addr, m.bytes, m.writable)
	if r == gpubackend.Success {
		m.context = c
	}
	return r
}

// RegisterEarly tells the driver of what it doesn't know. A context is current.
func (h *HostMemory) RegisterEarly() gpubackend.Result {
	if !h.pending {
		return gpubackend.Success
	}
	for addr, m := range h.registered {
		if !m.early || m.context != nil {
			continue
		}
		if r := h.register(addr, &m); r == gpubackend.HostMemoryAlreadyRegistered {
			// it was registered in a context that has ended, and still is
			m.context = h.contexts.Current()
		} else if r != gpubackend.Success {
			h.log.WithField("result", r).Warn("memory of __managed__ variables can't be registered")
			return r
		}
		h.registered[addr] = m
	}
	h.pending = false
	return gpubackend.Success
}

// Pending says whether there is memory that the driver doesn't know.
func (h *HostMemory) Pending() bool { return h.pending }

// Ended is told that a context has ended, and with it what was registered in it.
func (h *HostMemory) Ended(c *contexts.Context) {
	for addr, m := range h.registered {
		if m.early && m.context == c {
			m.context, h.pending = nil, true
			h.registered[addr] = m
		}
	}
}

// HostUnregister waits for the context's work first: the pages go back to the guest after it.
func (h *HostMemory) HostUnregister(addr, _ uint64) gpubackend.Result {
	m := h.registered[addr]
	delete(h.registered, addr)
	h.ranges.Host.Remove(addr)
	if !m.early {
		return h.unregister(addr)
	}
	if m.context == nil {
		return gpubackend.Success
	}
	return h.contexts.In(m.context, func() gpubackend.Result { return h.unregister(addr) })
}

// unregister makes the driver forget memory, in the current context.
func (h *HostMemory) unregister(addr uint64) gpubackend.Result {
	if c := h.contexts.Current(); c != nil && c.Work.Busy() && !h.capturing() {
		if r := h.calls.CtxSynchronize(); r != gpubackend.Success {
			h.contexts.Failed(r)
		}
	}
	return h.calls.MemHostUnregister(addr)
}

// HostPageable notes that copies may name a range, which to the driver is ordinary memory of this
// process. It isn't registered: where two graphs have pages in common, one registration replaces
// the other, and a graph made with the first faults at its launch (CUDA_ERROR_LAUNCH_FAILED on an
// H100).
func (h *HostMemory) HostPageable(addr, bytes uint64) gpubackend.Result {
	h.ranges.Host.Put(copyable.Span{Base: addr, Bytes: bytes, Writable: true})
	return gpubackend.Success
}
