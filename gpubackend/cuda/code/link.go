// SPDX-License-Identifier: Apache-2.0

package code

import (
	"runtime"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
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
func (x *Code) LinkCreate(
	options []byte, infoBytes, errorBytes uint64,
) (gpubackend.Link, gpubackend.Result) {
	memory := x.options.Host.Open()
	if memory.Take(min(infoBytes, maxLog)+min(errorBytes, maxLog)) != nil {
		return 0, gpubackend.OutOfMemory
	}
	l, r := newOptions(options, int(min(infoBytes, maxLog)), int(min(errorBytes, maxLog)))
	if r != gpubackend.Success {
		memory.Close()
		return 0, r
	}
	h, r := x.calls.LinkCreate(&l.Options)
	if r != gpubackend.Success {
		l.Free()
		memory.Close()
		return 0, r
	}
	x.links[h] = &linking{loading: l, memory: memory}
	return h, r
}

// LinkAddData adds an input.
func (x *Code) LinkAddData(
	link gpubackend.Link, kind uint64, data []byte, name string, options []byte,
) gpubackend.Result {
	if len(data) == 0 || len(data) > maxLinkInput {
		return gpubackend.InvalidValue
	}
	o, r := newOptions(options, 0, 0)
	if r != gpubackend.Success {
		return r
	}
	defer o.Free()
	l := x.links[link]
	if l == nil {
		return gpubackend.InvalidHandle
	}
	bytes := uint64(len(data))
	if l.memory.Take(2*bytes) != nil {
		return gpubackend.OutOfMemory
	}
	defer l.memory.Give(bytes)
	b := cmem.Copied(data, 16)
	defer b.Free()
	return x.calls.LinkAddData(link, kind, b, len(data), name, &o.Options)
}

// LinkComplete makes the image.
func (x *Code) LinkComplete(link gpubackend.Link) (uint64, gpubackend.Result) {
	l := x.links[link]
	if l == nil {
		return 0, gpubackend.InvalidHandle
	}
	at, bytes, r := x.calls.LinkComplete(link)
	if r == gpubackend.Success {
		l.image, l.bytes = at, bytes
	}
	return l.bytes, r
}

// LinkImage copies the image.
func (x *Code) LinkImage(link gpubackend.Link, image []byte) gpubackend.Result {
	l := x.links[link]
	if l == nil || l.image == 0 || uint64(len(image)) != l.bytes {
		return gpubackend.InvalidValue
	}
	copy(image, cmem.At(l.image, int(l.bytes)))
	runtime.KeepAlive(l)
	return gpubackend.Success
}

// LinkLogs copies the logs.
func (x *Code) LinkLogs(
	link gpubackend.Link, infoLog, errorLog []byte,
) (infoUsed, errorUsed uint64, r gpubackend.Result) {
	l := x.links[link]
	if l == nil {
		return 0, 0, gpubackend.InvalidHandle
	}
	infoUsed, errorUsed = l.logs(infoLog, errorLog)
	return infoUsed, errorUsed, gpubackend.Success
}

// LinkDestroy ends a link.
func (x *Code) LinkDestroy(link gpubackend.Link) gpubackend.Result {
	r := x.calls.LinkDestroy(link)
	if l := x.links[link]; l != nil && r == gpubackend.Success {
		l.Free()
		l.memory.Close()
		delete(x.links, link)
	}
	return r
}
