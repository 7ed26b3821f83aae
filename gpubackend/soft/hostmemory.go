// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend"

// HostRegister implements gpubackend.Driver. It needs no current context: libraries, whose managed variables lie in
// such memory, don't either.
func (d *Device) HostRegister(addr, bytes uint64, writable bool) gpubackend.Result {
	if _, result := d.Current(); result != gpubackend.Success && result != gpubackend.InvalidContext {
		return result
	}
	end, w := addr+bytes, d.Space()
	if addr == 0 || bytes == 0 || end < addr || end > w.Base() && addr < w.Base()+w.Size() {
		return gpubackend.InvalidValue
	}
	if !w.Admit(addr, bytes, writable) {
		return gpubackend.HostMemoryAlreadyRegistered
	}
	d.registered[addr] = bytes
	return gpubackend.Success
}

// HostUnregister implements gpubackend.Driver. Work that has begun is waited for; work that uses the range later
// ends with IllegalAddress. A dead context is no hindrance: the guest must get its pages back.
func (d *Device) HostUnregister(addr, bytes uint64) gpubackend.Result {
	if d.Space() == nil {
		return gpubackend.NotInitialized
	}
	if n, ok := d.registered[addr]; !ok || n != bytes {
		return gpubackend.HostMemoryNotRegistered
	}
	delete(d.registered, addr)
	d.Space().Withdraw(addr)
	d.scheduler.WaitUsers()
	return gpubackend.Success
}

// HostPageable implements gpubackend.Driver. Here kernels reach such memory, too.
func (d *Device) HostPageable(addr, bytes uint64) gpubackend.Result {
	return d.HostRegister(addr, bytes, true)
}
