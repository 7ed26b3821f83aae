// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/managed"
)

// Where a limit is set, the variables of modules and libraries count for it as soon as these are loaded, as many as the
// image says: the driver may take the memory later. Those of a library count once for each context, since each has its own.

// footprint is what the variables of an image count for. An image that can't be read isn't loaded.
func (d *Device) footprint(image []byte) (uint64, gpubackend.Result) {
	if d.options.MemoryLimit == 0 {
		return 0, gpubackend.Success
	}
	memory := d.options.HostMemory.Open()
	defer memory.Close()
	bytes, err := managed.Footprint(image, d.architecture(), memory)
	if memory.Refused() {
		return 0, gpubackend.OutOfMemory
	}
	if err != nil {
		d.log.WithError(err).Warn("an image isn't loaded: how much memory its variables take can't be known, and a limit is set")
		return 0, gpubackend.NotSupported
	}
	return bytes, gpubackend.Success
}

// chargedModule loads a module by load, if there is memory for its variables.
func (d *Device) chargedModule(image []byte, load func() (gpubackend.Module, gpubackend.Result)) (gpubackend.Module, gpubackend.Result) {
	bytes, r := d.footprint(image)
	if r != gpubackend.Success {
		return 0, r
	}
	if bytes == 0 {
		return load()
	}
	m, r := d.charged(bytes, true, func() (uint64, gpubackend.Result) {
		m, r := load()
		return uint64(m), r
	})
	return gpubackend.Module(m), r
}

// chargedLibrary does so for a library, in all contexts that there are. Without any it must fit into one.
func (d *Device) chargedLibrary(image []byte, load func() (gpubackend.Library, gpubackend.Result)) (gpubackend.Library, gpubackend.Result) {
	bytes, r := d.footprint(image)
	if r != gpubackend.Success {
		return 0, r
	}
	if bytes == 0 {
		return load()
	}
	if bytes > d.options.MemoryLimit {
		return 0, gpubackend.OutOfMemory
	}
	var done []*context
	for _, c := range d.contexts {
		if c.base != nil || !c.exists() {
			continue
		}
		if !d.chargeCode(c, bytes) {
			d.unchargeCode(done, bytes)
			return 0, gpubackend.OutOfMemory
		}
		done = append(done, c)
	}
	l, r := load()
	if r != gpubackend.Success {
		d.unchargeCode(done, bytes)
		return 0, r
	}
	if d.libraries == nil {
		d.libraries = map[gpubackend.Library]uint64{}
	}
	d.libraries[l] = bytes
	return l, r
}

func (d *Device) chargeCode(c *context, bytes uint64) bool {
	if !d.charge(c.gpu, bytes) {
		return false
	}
	c.code += bytes
	return true
}

func (d *Device) unchargeCode(cs []*context, bytes uint64) {
	for _, c := range cs {
		d.gpus[c.gpu].heap.Uncharge(bytes)
		c.code -= bytes
	}
}

// forgetLibrary counts the variables of a library that is gone no more.
func (d *Device) forgetLibrary(l gpubackend.Library) {
	bytes := d.libraries[l]
	delete(d.libraries, l)
	for _, c := range d.contexts {
		if bytes != 0 && c.base == nil && c.exists() {
			d.unchargeCode([]*context{c}, bytes)
		}
	}
}

// codeBytes is what all libraries count for in a context.
func (d *Device) codeBytes() (sum uint64) {
	for _, bytes := range d.libraries {
		sum += bytes
	}
	return sum
}

// roomForCode says whether a context that begins may have the variables of all libraries.
func (d *Device) roomForCode(gpu int) bool {
	bytes := d.codeBytes()
	if bytes == 0 {
		return true
	}
	if !d.charge(gpu, bytes) {
		return false
	}
	d.gpus[gpu].heap.Uncharge(bytes) // counted by beginCode
	return true
}

// beginCode counts them in a context that has begun.
func (d *Device) beginCode(c *context) {
	bytes := d.codeBytes()
	d.gpus[c.gpu].heap.Recharge(c.code, bytes)
	c.code = bytes
}

// charge counts memory if there is room, waiting for what was freed.
func (d *Device) charge(gpu int, bytes uint64) bool {
	heap := d.gpus[gpu].heap
	if heap.Charge(bytes) == nil {
		return true
	}
	return d.usable() && d.reclaimAll() && heap.Charge(bytes) == nil
}
