// SPDX-License-Identifier: Apache-2.0

package processes

// #cgo LDFLAGS: -ldl
// #cgo CFLAGS: -O2 -Wall -Wextra
// #include <dlfcn.h>
// #include <stdlib.h>
//
// struct pp_process {
//	unsigned int pid;
//	unsigned long long used;
//	unsigned int gpu_instance, compute_instance;
// };
//
// static void *pp_open(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
// static int pp_init(void *f) { return ((int (*)(void))f)(); }
// static int pp_count(void *f, unsigned int *n) { return ((int (*)(unsigned int *))f)(n); }
// static int pp_device(void *f, unsigned int i, void **d)
// { return ((int (*)(unsigned int, void **))f)(i, d); }
// static int pp_uuid(void *f, void *d, char *text, unsigned int room)
// { return ((int (*)(void *, char *, unsigned int))f)(d, text, room); }
// static int pp_processes(void *f, void *d, unsigned int *n, struct pp_process *list)
// { return ((int (*)(void *, unsigned int *, struct pp_process *))f)(d, n, list); }
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// functions are those of the library that are called, by their names.
var functions = [...]string{
	"nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID",
	"nvmlDeviceGetComputeRunningProcesses_v3",
}

const (
	initFunction = iota
	countFunction
	deviceFunction
	uuidFunction
	processesFunction
)

// most bounds the processes of a GPU.
const most = 4096

// Library is NVML. One goroutine uses it.
type Library struct {
	function [len(functions)]unsafe.Pointer
	list     *C.struct_pp_process // room for most
}

// Open loads NVML and initialises it. It stays loaded.
func Open(path string) (*Library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	handle := C.pp_open(name)
	if handle == nil {
		return nil, errors.New(C.GoString(C.dlerror()))
	}
	l := &Library{}
	for i, function := range functions {
		name := C.CString(function)
		l.function[i] = C.dlsym(handle, name)
		C.free(unsafe.Pointer(name))
		if l.function[i] == nil {
			return nil, fmt.Errorf("%s lacks %s", path, function)
		}
	}
	if r := C.pp_init(l.function[initFunction]); r != 0 {
		return nil, fmt.Errorf("nvmlInit: error %d", int(r))
	}
	l.list = (*C.struct_pp_process)(C.calloc(most, C.sizeof_struct_pp_process))
	return l, nil
}

// count is how many GPUs there are.
func (l *Library) count() (int, error) {
	var n C.uint
	if r := C.pp_count(l.function[countFunction], &n); r != 0 {
		return 0, fmt.Errorf("nvmlDeviceGetCount: error %d", int(r))
	}
	return int(n), nil
}

// read asks about a GPU.
func (l *Library) read(i int) (uuid string, used map[int]uint64, err error) {
	var device unsafe.Pointer
	if r := C.pp_device(l.function[deviceFunction], C.uint(i), &device); r != 0 {
		return "", nil, fmt.Errorf("nvmlDeviceGetHandleByIndex %d: error %d", i, int(r))
	}
	var text [96]C.char
	if r := C.pp_uuid(l.function[uuidFunction], device, &text[0], C.uint(len(text))); r != 0 {
		return "", nil, fmt.Errorf("nvmlDeviceGetUUID %d: error %d", i, int(r))
	}
	n := C.uint(most)
	if r := C.pp_processes(l.function[processesFunction], device, &n, l.list); r != 0 {
		return "", nil, fmt.Errorf("nvmlDeviceGetComputeRunningProcesses %d: error %d", i, int(r))
	}
	used = make(map[int]uint64)
	// SAFETY: the list has room for most, which the library was told, and was zeroed.
	for _, p := range unsafe.Slice(l.list, most)[:min(n, most)] {
		if bytes := uint64(p.used); bytes != notAvailable {
			used[int(p.pid)] += bytes
		}
	}
	text[len(text)-1] = 0
	return C.GoString(&text[0]), used, nil
}
