// SPDX-License-Identifier: Apache-2.0

package cuda

// #cgo LDFLAGS: -ldl -lpthread
// #cgo CFLAGS: -O2 -Wall -Wextra
// #include <dlfcn.h>
// #include <stdio.h>
// #include <stdlib.h>
// #include "driver.h"
// #cgo noescape pc_call
// #cgo nocallback pc_call
// #cgo noescape pc_launches
// #cgo nocallback pc_launches
//
// static void *pc_open(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
import "C"

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend"
)

// symbol numbers the functions of the driver library that this package calls.
type symbol int

// textCapacity is the scratch for names; longer ones (mangled C++ names) get a larger one.
const textCapacity = 4096

// library is the driver library with the scratch memory of the one thread that calls it.
type library struct {
	handle   unsafe.Pointer
	function [symbols]unsafe.Pointer
	frame    *C.struct_pc_frame
	started  bool // cuInit was called
	name     block
	launches launchScratch
	active   *activity // of the current context; nil for none
}

// open loads the library at path and finds its functions.
func (l *library) open(path string) error {
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))
	l.handle = C.pc_open(cPath)
	if l.handle == nil {
		return errors.New(C.GoString(C.dlerror()))
	}
	l.frame = (*C.struct_pc_frame)(allocate(C.sizeof_struct_pc_frame).p)
	l.name = allocate(textCapacity)
	l.launches.init()
	l.resolve()
	for _, s := range required {
		if l.function[s] == nil {
			name := symbolName(s)
			l.close()
			return fmt.Errorf("%s: no function %s: the driver is too old (CUDA 12.0 or later is needed)", path, name)
		}
	}
	return nil
}

// resolve finds the functions by their exported names, each of which has one ABI for ever. A name that
// isn't exported is asked of cuGetProcAddress, if it has no suffix: by a base name the driver gives the newest ABI
// of the version asked for, which for a name with a suffix would be another one.
func (l *library) resolve() {
	for s := range symbols {
		l.function[s] = l.lookup(symbolName(s))
	}
	if l.function[symGetProcAddress] == nil {
		return
	}
	version := min(l.driverVersion(), maxVersion)
	for s := range symbols {
		name := symbolName(s)
		if l.function[s] != nil || strings.Contains(name, "_v") {
			continue
		}
		if l.call(symGetProcAddress, l.text(name), l.out(0), uint64(version), 0, l.out(1)) == gpubackend.Success {
			l.function[s] = cPointer(l.value(0))
		}
	}
}

func (l *library) lookup(name string) unsafe.Pointer {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	return C.dlsym(l.handle, cName)
}

// close frees the scratch memory, and unloads the library unless it was initialised: then its threads are running.
func (l *library) close() {
	if l.handle == nil {
		return
	}
	if !l.started {
		C.dlclose(l.handle)
	}
	l.handle = nil
	C.free(unsafe.Pointer(l.frame))
	l.frame = nil
	l.name.free()
	l.launches.free()
	l.function = [symbols]unsafe.Pointer{}
}

// driverVersion is the CUDA version that the driver supports, or 0.
func (l *library) driverVersion() uint32 {
	if l.call(symDriverGetVersion, l.out(0)) != gpubackend.Success {
		return 0
	}
	return uint32(l.value(0))
}

// call calls a function; one that the driver lacks is not supported.
func (l *library) call(s symbol, args ...uint64) gpubackend.Result {
	if l.function[s] == nil {
		return gpubackend.NotSupported
	}
	if i := streamArgument[s]; i != 0 && l.active != nil {
		l.active.touch(gpubackend.Stream(args[i-1]))
	}
	return l.callAt(l.function[s], args...)
}

func (l *library) callAt(function unsafe.Pointer, args ...uint64) gpubackend.Result {
	for i, a := range args {
		l.frame.argument[i] = C.uint64_t(a)
	}
	return gpubackend.Result(C.pc_call(function, l.frame, C.int32_t(len(args))))
}

// openEvent opens an event by a handle of 64 bytes, which the function takes by value. The event is output word 0.
func (l *library) openEvent(handle block) gpubackend.Result {
	function := l.function[symIpcOpenEventHandle]
	if function == nil {
		return gpubackend.NotSupported
	}
	l.out(0)
	return gpubackend.Result(C.pc_open_event(function, &l.frame.output[0], handle.p))
}

// callFloats calls a function of an object and one or two floating-point numbers, given by their bits.
func (l *library) callFloats(s symbol, object uint64, numbers ...uint64) gpubackend.Result {
	function := l.function[s]
	if function == nil {
		return gpubackend.NotSupported
	}
	var v [2]C.float
	for i, bits := range numbers {
		v[i] = C.float(math.Float32frombits(uint32(bits)))
	}
	return gpubackend.Result(C.pc_call_floats(function, C.uint64_t(object), v[0], v[1], C.int32_t(len(numbers))))
}

// out clears output word i and returns its address, for a parameter that the driver writes. A narrower output
// leaves the upper bits 0.
func (l *library) out(i int) uint64 {
	l.frame.output[i] = 0
	// SAFETY: the frame is C memory.
	return uint64(uintptr(unsafe.Pointer(&l.frame.output[i])))
}

// value is output word i of the last call.
func (l *library) value(i int) uint64 { return uint64(l.frame.output[i]) }

// text puts a NUL after s in scratch memory and returns its address, good until the next call of text.
func (l *library) text(s string) uint64 {
	if len(s) >= l.name.n {
		l.name.free()
		l.name = allocate(2*len(s) + 1)
	}
	b := l.name.bytes()
	b[copy(b, s)] = 0
	return l.name.address()
}

// flushOutput writes out what the driver's printf has left in the C library's buffers.
func flushOutput() { C.fflush(nil) }
