// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

const (
	maxJITOptions = cudaabi.MaxJITOptions
	maxLog        = cudaabi.MaxLogBytes
)

// plainJITOptions are the options whose value is a number. Of the others, which are pointers, only
// logs are offered.
var plainJITOptions = func() (plain [cudaabi.JITOverrideDirectiveValues + 1]bool) {
	for o := range plain {
		logs := o >= cudaabi.JITWallTime && o <= cudaabi.JITErrorLogBufferSizeBytes
		symbols := o >= cudaabi.JITGlobalSymbolNames && o <= cudaabi.JITGlobalSymbolCount
		names := o >= cudaabi.JITReferencedKernelNames && o <= cudaabi.JITReferencedVariableCount
		plain[o] = !logs && !symbols && !names
	}
	return
}()

// loading is the C memory of one load.
type loading struct {
	driver.Options
	image             cmem.Memory
	infoLog, errorLog cmem.Memory
	infoAt, errorAt   int // option that holds a log's length; -1 for none
}

// newLoading copies what the driver is to read: the image with zeros after it, for PTX ends with a
// NUL.
func newLoading(image, options, infoLog, errorLog []byte) (*loading, gpubackend.Result) {
	if r := checkImage(image); r != gpubackend.Success {
		return nil, r
	}
	l, r := newOptions(options, len(infoLog), len(errorLog))
	if r == gpubackend.Success {
		l.image = cmem.Copied(image, 16)
	}
	return l, r
}

// newOptions makes the options and logs of a load or link.
func newOptions(options []byte, infoBytes, errorBytes int) (*loading, gpubackend.Result) {
	count := len(options) / 16
	if len(options)%16 != 0 || count > maxJITOptions {
		return nil, gpubackend.InvalidValue
	}
	l := &loading{
		Options: driver.Options{IDs: cmem.Allocate(4 * (count + 4)),
			Values: cmem.Allocate(8 * (count + 4))},
		infoAt: -1, errorAt: -1,
	}
	for i := range count {
		id, value := binary.LittleEndian.Uint64(options[16*i:]),
			binary.LittleEndian.Uint64(options[16*i+8:])
		if r := l.option(id, value); r != gpubackend.Success {
			l.Free()
			return nil, r
		}
	}
	l.infoLog, l.infoAt = l.log(infoBytes, cudaabi.JITInfoLogBuffer)
	l.errorLog, l.errorAt = l.log(errorBytes, cudaabi.JITErrorLogBuffer)
	return l, gpubackend.Success
}

func (l *loading) option(id, value uint64) gpubackend.Result {
	switch {
	case id >= cudaabi.JITWallTime && id <= cudaabi.JITErrorLogBufferSizeBytes:
		return gpubackend.Success // buffers are parameters of their own; the time is left as it was
	case id >= uint64(len(plainJITOptions)):
		return gpubackend.InvalidValue
	case !plainJITOptions[id]:
		return gpubackend.NotSupported
	}
	l.add(uint32(id), value)
	return gpubackend.Success
}

func (l *loading) add(id uint32, value uint64) {
	binary.LittleEndian.PutUint32(l.IDs.Bytes()[4*l.Count:], id)
	binary.LittleEndian.PutUint64(l.Values.Bytes()[8*l.Count:], value)
	l.Count++
}

// log adds a log buffer, as option and option+1; it returns where its length is.
func (l *loading) log(bytes int, option uint32) (cmem.Memory, int) {
	if bytes == 0 {
		return cmem.Memory{}, -1
	}
	b := cmem.Allocate(min(bytes, maxLog))
	l.add(option, b.Address())
	l.add(option+1, uint64(b.Len()))
	return b, l.Count - 1
}

// logs copies both logs to the guest's buffers and returns their lengths.
func (l *loading) logs(info, errors []byte) (infoUsed, errorsUsed uint64) {
	return l.results(info, l.infoLog, l.infoAt), l.results(errors, l.errorLog, l.errorAt)
}

// results copies a log to its buffer and returns the length that the driver gave.
func (l *loading) results(to []byte, log cmem.Memory, at int) uint64 {
	if at < 0 {
		return 0
	}
	// The driver writes a size_t or only its low half there; no log is too long for the low half.
	used := min(uint64(binary.LittleEndian.Uint32(l.Values.Bytes()[8*at:])), uint64(log.Len()))
	copy(to, log.Bytes()[:used])
	return used
}

func (l *loading) Free() {
	for _, b := range []*cmem.Memory{&l.image, &l.IDs, &l.Values, &l.infoLog, &l.errorLog} {
		b.Free()
	}
}

// ModuleLoadData loads an image into the current context. NotReady says that it has managed
// variables.
func (x *Code) ModuleLoadData(
	image, options, infoLog, errorLog []byte,
) (m gpubackend.Module, infoUsed, errorUsed uint64, r gpubackend.Result) {
	if r = x.checkImageIsPlain(image); r != gpubackend.Success {
		return
	}
	return x.loadMovableModule(image, options, infoLog, errorLog)
}

func (x *Code) loadModule(
	image, options, infoLog, errorLog []byte,
) (m gpubackend.Module, infoUsed, errorUsed uint64, r gpubackend.Result) {
	return load(x, image, options, infoLog, errorLog, x.contexts.Home(), x.chargedModule,
		x.calls.ModuleLoad)
}

// LibraryLoadData loads an image for all contexts. NotReady says that it has managed variables.
func (x *Code) LibraryLoadData(
	image, options, infoLog, errorLog []byte,
) (lib gpubackend.Library, infoUsed, errorUsed uint64, r gpubackend.Result) {
	if r = x.checkImageIsPlain(image); r != gpubackend.Success {
		return
	}
	return x.loadMovableLibrary(image, options, infoLog, errorLog)
}

func (x *Code) loadLibrary(
	image, options, infoLog, errorLog []byte,
) (lib gpubackend.Library, infoUsed, errorUsed uint64, r gpubackend.Result) {
	return load(x, image, options, infoLog, errorLog, nil, x.chargedLibrary, x.calls.LibraryLoad)
}

// load loads an image by call, if charged finds memory for its variables, and copies the logs.
// What it makes ends with its owner, if it has one.
func load[H ~uint64](
	x *Code, image, options, infoLog, errorLog []byte, owner *contexts.Context,
	charged func(image []byte, load func() (H, gpubackend.Result)) (H, gpubackend.Result),
	call func(image cmem.Memory, o *driver.Options) (H, gpubackend.Result),
) (h H, infoUsed, errorUsed uint64, r gpubackend.Result) {
	l, r := newLoading(image, options, infoLog, errorLog)
	if r != gpubackend.Success {
		return
	}
	defer l.Free()
	x.prints.Note(image)
	h, r = charged(image, func() (H, gpubackend.Result) {
		return loaded(x, image, owner, func() (H, gpubackend.Result) {
			return call(l.image, &l.Options)
		})
	})
	infoUsed, errorUsed = l.logs(infoLog, errorLog)
	return h, infoUsed, errorUsed, r
}

// LibraryUnload unloads a library, and forgets what is known of its kernels.
func (x *Code) LibraryUnload(lib gpubackend.Library) gpubackend.Result {
	x.ending()
	x.kernels.forget()
	r := x.calls.LibraryUnload(lib)
	if r == gpubackend.Success {
		x.forgetLibrary(lib)
		x.drop(uint64(lib))
		x.dropLibrary(lib)
	}
	if p := x.placed.libraries[lib]; p != nil && r == gpubackend.Success {
		delete(x.placed.libraries, lib)
		x.forgetPlaced(p, nil)
	}
	return r
}

// ModuleUnload unloads a module, after graphs are forgotten that may launch its functions.
func (x *Code) ModuleUnload(module gpubackend.Module) gpubackend.Result {
	x.ending()
	x.functions.forget()
	r := x.calls.ModuleUnload(module)
	if r == gpubackend.Success {
		x.charges.Drop(uint64(module))
		x.drop(uint64(module))
		x.dropModule(module)
		delete(x.placed.modules, module)
	}
	return r
}

// FuncSetAttribute sets an attribute, after graphs are forgotten that were made under the old one.
func (x *Code) FuncSetAttribute(f gpubackend.Function, attribute, value uint64) gpubackend.Result {
	x.ending()
	return x.calls.FuncSetAttribute(f, attribute, value)
}

// KernelSetAttribute is FuncSetAttribute for a kernel.
func (x *Code) KernelSetAttribute(
	attribute, value uint64, k gpubackend.Kernel, dev uint64,
) gpubackend.Result {
	x.ending()
	return x.calls.KernelSetAttribute(attribute, value, k, dev)
}
