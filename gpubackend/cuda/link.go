// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"runtime"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
)

// linking is the C memory of one link: the driver writes to the logs until it is destroyed.
type linking struct {
	*loading
	image  uint64
	bytes  uint64
	memory *budget.Account // the logs, and what was added, which the driver keeps
}

// maxLinkInput bounds what is added to a link at once.
const maxLinkInput = 1 << 30

// LinkCreate begins a link.
func (d *Device) LinkCreate(options []byte, infoBytes, errorBytes uint64) (gpubackend.Link, gpubackend.Result) {
	memory := d.options.HostMemory.Open()
	if memory.Take(min(infoBytes, maxLog)+min(errorBytes, maxLog)) != nil {
		return 0, gpubackend.OutOfMemory
	}
	l, r := newOptions(options, int(min(infoBytes, maxLog)), int(min(errorBytes, maxLog)))
	if r != gpubackend.Success {
		memory.Close()
		return 0, r
	}
	r = d.call(symLinkCreate, uint64(l.n), l.ids.address(), l.values.address(), d.out(0))
	if r != gpubackend.Success {
		l.free()
		memory.Close()
		return 0, r
	}
	if d.links == nil {
		d.links = map[gpubackend.Link]*linking{}
	}
	h := gpubackend.Link(d.value(0))
	d.links[h] = &linking{loading: l, memory: memory}
	return h, r
}

// LinkAddData adds an input.
func (d *Device) LinkAddData(link gpubackend.Link, kind uint64, data []byte, name string, options []byte) gpubackend.Result {
	if len(data) == 0 || len(data) > maxLinkInput {
		return gpubackend.InvalidValue
	}
	o, r := newOptions(options, 0, 0)
	if r != gpubackend.Success {
		return r
	}
	defer o.free()
	l := d.links[link]
	if l == nil {
		return gpubackend.InvalidHandle
	}
	bytes := uint64(len(data))
	if l.memory.Take(2*bytes) != nil {
		return gpubackend.OutOfMemory
	}
	defer l.memory.Give(bytes)
	b := copied(data, 16)
	defer b.free()
	return d.call(symLinkAddData, uint64(link), kind, b.address(), uint64(len(data)), d.text(name), uint64(o.n),
		o.ids.address(), o.values.address())
}

// LinkComplete makes the image.
func (d *Device) LinkComplete(link gpubackend.Link) (uint64, gpubackend.Result) {
	l := d.links[link]
	if l == nil {
		return 0, gpubackend.InvalidHandle
	}
	r := d.call(symLinkComplete, uint64(link), d.out(0), d.out(1))
	if r == gpubackend.Success {
		l.image, l.bytes = d.value(0), d.value(1)
	}
	return l.bytes, r
}

// LinkImage copies the image.
func (d *Device) LinkImage(link gpubackend.Link, image []byte) gpubackend.Result {
	l := d.links[link]
	if l == nil || l.image == 0 || uint64(len(image)) != l.bytes {
		return gpubackend.InvalidValue
	}
	copy(image, at(l.image, int(l.bytes)))
	runtime.KeepAlive(l)
	return gpubackend.Success
}

// LinkLogs copies the logs.
func (d *Device) LinkLogs(link gpubackend.Link, infoLog, errorLog []byte) (infoUsed, errorUsed uint64, r gpubackend.Result) {
	l := d.links[link]
	if l == nil {
		return 0, 0, gpubackend.InvalidHandle
	}
	return l.results(infoLog, l.infoLog, l.infoAt), l.results(errorLog, l.errorLog, l.errorAt), gpubackend.Success
}

// LinkDestroy ends a link.
func (d *Device) LinkDestroy(link gpubackend.Link) gpubackend.Result {
	r := d.calls.LinkDestroy(link)
	if l := d.links[link]; l != nil && r == gpubackend.Success {
		l.free()
		l.memory.Close()
		delete(d.links, link)
	}
	return r
}
