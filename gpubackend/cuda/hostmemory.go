// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// registration is memory of the guest's that HostRegister was told of.
type registration struct {
	bytes    uint64
	writable bool
	// lent is set where there was no context: the memory is of a library's managed variables. The driver gets to know
	// it when there is one, and again when that has ended and there is another.
	lent    bool
	context *context // in which the driver knows it; nil for none
}

// HostRegister makes memory of this process, mapped where the guest has it, reachable for kernels. Without a context
// there are none: then the driver is told when the memory is needed.
func (d *Device) HostRegister(addr, bytes uint64, writable bool) gpubackend.Result {
	m := registration{bytes: bytes, writable: writable, lent: d.state == nil}
	if !m.lent {
		if r := d.register(addr, &m); r != gpubackend.Success {
			return r
		}
	}
	d.lends = d.lends || m.lent
	d.registered[addr] = m
	d.ranges.host.put(span{addr, bytes, writable})
	return gpubackend.Success
}

// register tells the driver of memory, in the current context. Where it can't be told that memory is only to be read,
// kernels could write it.
func (d *Device) register(addr uint64, m *registration) gpubackend.Result {
	if !m.writable && !d.gpus[d.state.gpu].readOnlyRegister {
		return gpubackend.NotSupported
	}
	r := d.MemHostRegister(addr, m.bytes, m.writable)
	if r == gpubackend.Success {
		m.context = d.state
	}
	return r
}

// registerLent tells the driver of what it doesn't know. A context is current.
func (d *Device) registerLent() gpubackend.Result {
	if !d.lends {
		return gpubackend.Success
	}
	for addr, m := range d.registered {
		if !m.lent || m.context != nil {
			continue
		}
		if r := d.register(addr, &m); r == gpubackend.HostMemoryAlreadyRegistered {
			m.context = d.state // it has outlasted the context that it was registered in
		} else if r != gpubackend.Success {
			d.log.WithField("result", r).Warn("memory of __managed__ variables can't be registered")
			return r
		}
		d.registered[addr] = m
	}
	d.lends = false
	return gpubackend.Success
}

// forgetRegistered is told that a context has ended, and with it what was registered in it.
func (d *Device) forgetRegistered(c *context) {
	for addr, m := range d.registered {
		if m.lent && m.context == c {
			m.context, d.lends = nil, true
			d.registered[addr] = m
		}
	}
}

// HostUnregister waits for the context's work first: the pages go back to the guest after it.
func (d *Device) HostUnregister(addr, _ uint64) gpubackend.Result {
	m := d.registered[addr]
	delete(d.registered, addr)
	d.ranges.host.remove(addr)
	if !m.lent {
		return d.unregister(addr)
	}
	if m.context == nil {
		return gpubackend.Success
	}
	before := d.current
	r := d.SetCurrent(m.context.handle)
	if r == gpubackend.Success {
		r = d.unregister(addr)
	}
	d.SetCurrent(before)
	return r
}

// unregister makes the driver forget memory, in the current context.
func (d *Device) unregister(addr uint64) gpubackend.Result {
	if d.state != nil && d.state.work.busy() && len(d.capturing) == 0 {
		if r := d.CtxSynchronize(); r != gpubackend.Success {
			d.failed(r)
		}
	}
	return d.MemHostUnregister(addr)
}

// HostPageable notes that copies may name it: to the driver it is ordinary memory of this process. To register it
// instead would not do: where ranges of graphs have pages in common, one registration would have to give way to another,
// and a graph that was made with the first faults when it is launched (CUDA_ERROR_LAUNCH_FAILED on an H100).
func (d *Device) HostPageable(addr, bytes uint64) gpubackend.Result {
	d.ranges.host.put(span{addr, bytes, true})
	return gpubackend.Success
}
