// SPDX-License-Identifier: Apache-2.0

package code

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
	"github.com/paracuda/paracuda/gpubackend/managed"
)

// The driver allocates managed variables in this process, where the guest can't touch them. So an
// image with some is loaded in steps (docs/protocol.md): the guest gives its memory, which is
// registered here, and the driver gets the image without managed variables, but with addresses in
// that memory (package managed).

// checkImageIsPlain answers NotReady to an image with managed variables.
func (x *Code) checkImageIsPlain(image []byte) gpubackend.Result {
	if r := checkImage(image); r != gpubackend.Success {
		return r
	}
	memory := x.options.Host.Open()
	defer memory.Close()
	r := gpubackend.NotReady
	if _, found := managed.Find(image, memory); !found {
		r = gpubackend.Success
	} else if codes, err := managed.Open(image, x.architecture(), memory); err == nil &&
		len(codes) == 0 {
		r = gpubackend.Success // only its code for other GPUs has managed variables
	}
	if memory.Refused() {
		return gpubackend.OutOfMemory
	}
	return r
}

// managedCode returns the code of an image whose managed variables can be placed, the best first.
// What it takes of the host's memory is the caller's to give back.
func (x *Code) managedCode(
	image []byte, memory *budget.Account,
) ([]*managed.Code, gpubackend.Result) {
	if r := checkImage(image); r != gpubackend.Success {
		return nil, r
	}
	codes, err := managed.Open(image, x.architecture(), memory)
	switch {
	case memory.Refused():
		return nil, gpubackend.OutOfMemory
	case errors.Is(err, managed.ErrUnsupported):
		name, _ := managed.Find(image, memory)
		x.options.Log.WithError(err).WithField("variable", name).Error(
			"a program's __managed__ variables are not supported: " +
				"it needs PTX, as nvcc -gencode arch=compute_XX,code=compute_XX makes it")
		return nil, gpubackend.NotSupported
	case errors.Is(err, fatbin.ErrNoBinary):
		return nil, gpubackend.NoBinaryForGPU
	case err != nil:
		return nil, gpubackend.InvalidImage
	}
	return codes, gpubackend.Success
}

// ManagedBytes is the size of the memory that an image's managed variables need.
func (x *Code) ManagedBytes(image []byte) (bytes uint64, r gpubackend.Result) {
	memory := x.options.Host.Open()
	defer memory.Close()
	codes, r := x.managedCode(image, memory)
	for _, c := range codes {
		bytes = max(bytes, c.Bytes)
	}
	return bytes, r
}

// architecture is that of the current context's GPU, or of the first GPU: 90 for compute capability
// 9.0.
func (x *Code) architecture() int {
	g := x.gpu()
	if g == nil {
		return 0
	}
	high, r := x.calls.DeviceGetAttribute(cudaabi.DeviceAttributeComputeCapabilityMajor, g.Native)
	low, also := x.calls.DeviceGetAttribute(cudaabi.DeviceAttributeComputeCapabilityMinor, g.Native)
	if r != gpubackend.Success || also != gpubackend.Success {
		return 0
	}
	return 10*int(high) + int(low)
}

// loadPlaced loads the first code of an image that the driver takes, with its managed variables at
// an address.
func (x *Code) loadPlaced(
	image []byte, at uint64, load func(code []byte, p *placed) gpubackend.Result,
) gpubackend.Result {
	memory := x.options.Host.Open()
	defer memory.Close()
	codes, r := x.managedCode(image, memory)
	if r != gpubackend.Success {
		return r
	}
	r = gpubackend.InvalidValue
	for _, c := range codes {
		p := newPlaced(c, at)
		if at%managed.MaxAlign != 0 || !x.ranges.Host.Cover(at, c.Bytes, true) {
			return gpubackend.InvalidValue
		}
		if r = load(c.Place(at), p); r == gpubackend.Success || r.Sticky() {
			return r
		}
		x.options.Log.WithField("result", r).WithField("form", c.Form).Warn(
			"code with __managed__ variables was refused")
	}
	return r
}

// ModuleLoadManaged loads an image whose managed variables are in memory of the guest's.
func (x *Code) ModuleLoadManaged(
	image, options []byte, at uint64, infoLog, errorLog []byte,
) (m gpubackend.Module, infoUsed, errorUsed uint64, r gpubackend.Result) {
	r = x.loadPlaced(image, at, func(code []byte, p *placed) (r gpubackend.Result) {
		m, infoUsed, errorUsed, r = x.loadModule(code, options, infoLog, errorLog)
		if r != gpubackend.Success {
			return r
		}
		r = x.fill(p, func(name string) (uint64, uint64, gpubackend.Result) {
			return x.calls.ModuleGetGlobal(m, name)
		})
		if r != gpubackend.Success {
			x.ModuleUnload(m)
			m = 0
			return r
		}
		x.addModule(m, p)
		return r
	})
	return m, infoUsed, errorUsed, r
}

// LibraryLoadManaged is ModuleLoadManaged for a library, whose variables get their initial content
// when there is a context.
func (x *Code) LibraryLoadManaged(
	image, options []byte, at uint64, infoLog, errorLog []byte,
) (l gpubackend.Library, infoUsed, errorUsed uint64, r gpubackend.Result) {
	r = x.loadPlaced(image, at, func(code []byte, p *placed) (r gpubackend.Result) {
		l, infoUsed, errorUsed, r = x.loadLibrary(code, options, infoLog, errorLog)
		if r != gpubackend.Success {
			return r
		}
		if r = x.fillAnywhere(l, p); r != gpubackend.Success && r != gpubackend.InvalidContext {
			x.LibraryUnload(l)
			l = 0
			return r
		}
		x.placed.libraries[l] = p
		return gpubackend.Success
	})
	return l, infoUsed, errorUsed, r
}
