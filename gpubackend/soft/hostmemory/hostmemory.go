// SPDX-License-Identifier: Apache-2.0

package hostmemory

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/memory"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// Options are what host memory is given.
type Options struct {
	Contexts  *contexts.Contexts
	Memory    *memory.Memory
	Scheduler *scheduler.Scheduler
}

// HostMemory is the memory of this process that kernels and copies may reach.
type HostMemory struct {
	options    Options
	registered map[uint64]uint64 // address, size
}

// New returns the host memory of a device, none of it registered.
func New(o Options) *HostMemory {
	return &HostMemory{options: o, registered: make(map[uint64]uint64)}
}

// HostRegister implements gpubackend.Driver. It needs no current context: libraries, whose managed
// variables lie in such memory, don't either.
func (x *HostMemory) HostRegister(addr, bytes uint64, writable bool) gpubackend.Result {
	_, result := x.options.Contexts.Current()
	if result != gpubackend.Success && result != gpubackend.InvalidContext {
		return result
	}
	end, w := addr+bytes, x.options.Memory.Space()
	if addr == 0 || bytes == 0 || end < addr || end > w.Base() && addr < w.Base()+w.Size() {
		return gpubackend.InvalidValue
	}
	if !w.Admit(addr, bytes, writable) {
		return gpubackend.HostMemoryAlreadyRegistered
	}
	x.registered[addr] = bytes
	return gpubackend.Success
}

// HostUnregister implements gpubackend.Driver. Work that has begun is waited for; work that uses
// the range later ends with IllegalAddress. That works in a dead context, too: the guest must get
// its pages back.
func (x *HostMemory) HostUnregister(addr, bytes uint64) gpubackend.Result {
	if x.options.Memory.Space() == nil {
		return gpubackend.NotInitialized
	}
	if n, ok := x.registered[addr]; !ok || n != bytes {
		return gpubackend.HostMemoryNotRegistered
	}
	delete(x.registered, addr)
	x.options.Memory.Space().Withdraw(addr)
	x.options.Scheduler.WaitUsers()
	return gpubackend.Success
}

// HostPageable implements gpubackend.Driver. Here kernels reach such memory, too.
func (x *HostMemory) HostPageable(addr, bytes uint64) gpubackend.Result {
	return x.HostRegister(addr, bytes, true)
}
