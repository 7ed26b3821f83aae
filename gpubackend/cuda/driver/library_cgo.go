// SPDX-License-Identifier: Apache-2.0

package driver

// #cgo LDFLAGS: -ldl
// #cgo CFLAGS: -O2 -Wall -Wextra
// #include <dlfcn.h>
// #include <stdio.h>
// #include <stdlib.h>
// #include "call.h"
// #cgo noescape pc_call
// #cgo nocallback pc_call
//
// static void *pc_open(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
import "C"

import (
	"errors"
	"math"
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
)

// symbol numbers the functions of the driver library that this package calls.
type symbol int

// library is the driver library with the scratch memory of the one thread that calls it.
type library struct {
	handle   unsafe.Pointer
	function [symbols]unsafe.Pointer
	frame    *C.struct_pc_frame
	started  bool // cuInit was called
	name     cmem.Memory
	scratch  scratch
	series   seriesFunctions
	work     Work // nil for none
}

// open loads the library at path.
func (l *library) open(path string) error {
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))
	l.handle = C.pc_open(cPath)
	if l.handle == nil {
		return errors.New(C.GoString(C.dlerror()))
	}
	frame := cmem.Allocate(C.sizeof_struct_pc_frame)
	l.frame = (*C.struct_pc_frame)(frame.Pointer())
	l.name = cmem.Allocate(TextCapacity)
	l.scratch.init()
	return nil
}

// compilers are libraries that the driver opens by these names when there is code to compile: PTX,
// and what nvcc left for link time.
var compilers = [...]string{"libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4"}

// LoadCompilers loads them while this process still may; the driver then finds them loaded. If the
// host lacks one, the driver reports it.
func LoadCompilers() {
	for _, name := range compilers {
		cName := C.CString(name)
		C.pc_open(cName)
		C.free(unsafe.Pointer(cName))
	}
}

func (l *library) lookup(name string) unsafe.Pointer {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	return C.dlsym(l.handle, cName)
}

// Close frees the scratch memory, and unloads the library unless it was initialised, since then its
// threads run. Nothing is called after Close.
func (l *library) Close() {
	if l.handle == nil {
		return
	}
	if !l.started {
		C.dlclose(l.handle)
	}
	l.handle = nil
	C.free(unsafe.Pointer(l.frame))
	l.frame = nil
	l.name.Free()
	l.scratch.free()
	l.series.memory.Free()
	l.function = [symbols]unsafe.Pointer{}
}

// IsOpen says whether Close is still to be called.
func (l *library) IsOpen() bool { return l.handle != nil }

// call calls a function; one that the driver lacks is not supported.
func (l *library) call(s symbol, args ...uint64) gpubackend.Result {
	if l.function[s] == nil {
		return gpubackend.NotSupported
	}
	if i := streamArgument[s]; i != 0 && l.work != nil {
		l.work.Touch(gpubackend.Stream(args[i-1]))
	}
	return l.callAt(l.function[s], args...)
}

func (l *library) callAt(function unsafe.Pointer, args ...uint64) gpubackend.Result {
	for i, a := range args {
		l.frame.argument[i] = C.uint64_t(a)
	}
	return gpubackend.Result(C.pc_call(function, l.frame, C.int32_t(len(args))))
}

// Function is the address of a function of the library.
type Function = unsafe.Pointer

// LaunchHostFunc is cuLaunchHostFunc for callers with functions of C; nil if the driver lacks it.
func (l *library) LaunchHostFunc() Function { return l.function[symLaunchHostFunc] }

// openEvent opens an event by a handle of 64 bytes, which the function takes by value. The event is
// output word 0.
func (l *library) openEvent(handle cmem.Memory) gpubackend.Result {
	function := l.function[symIpcOpenEventHandle]
	if function == nil {
		return gpubackend.NotSupported
	}
	l.out(0)
	return gpubackend.Result(C.pc_open_event(function, &l.frame.output[0], handle.Pointer()))
}

// callFloats calls a function of an object and one or two floating-point numbers, given by their
// bits.
func (l *library) callFloats(s symbol, object uint64, numbers ...uint64) gpubackend.Result {
	function := l.function[s]
	if function == nil {
		return gpubackend.NotSupported
	}
	var v [2]C.float
	for i, bits := range numbers {
		v[i] = C.float(math.Float32frombits(uint32(bits)))
	}
	return gpubackend.Result(C.pc_call_floats(function, C.uint64_t(object), v[0], v[1],
		C.int32_t(len(numbers))))
}

// out clears output word i and returns its address, for a parameter that the driver writes. A
// narrower output leaves the upper bits 0.
func (l *library) out(i int) uint64 { return l.inOut(i, 0) }

// inOut is out for a parameter that the driver reads, too.
func (l *library) inOut(i int, value uint64) uint64 {
	l.frame.output[i] = C.uint64_t(value)
	// SAFETY: the frame is C memory.
	return uint64(uintptr(unsafe.Pointer(&l.frame.output[i])))
}

// value is output word i of the last call.
func (l *library) value(i int) uint64 { return uint64(l.frame.output[i]) }

// text puts a NUL after s in scratch memory and returns its address, which is valid until the next
// call of text.
func (l *library) text(s string) uint64 {
	if len(s) >= l.name.Len() {
		l.name.Free()
		l.name = cmem.Allocate(2*len(s) + 1)
	}
	b := l.name.Bytes()
	b[copy(b, s)] = 0
	return l.name.Address()
}

// FlushOutput writes out what the driver's printf has left in the buffers of the C library.
func FlushOutput() { C.fflush(nil) }
