// SPDX-License-Identifier: Apache-2.0

package nvml

// #cgo LDFLAGS: -ldl
// #cgo CFLAGS: -O2 -Wall -Wextra
// #include <dlfcn.h>
// #include <stdlib.h>
//
// static void *pn_open(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
// static int pn_init(void *f) { return ((int (*)(void))f)(); }
// static int pn_count(void *f, unsigned int *n) { return ((int (*)(unsigned int *))f)(n); }
// static int pn_by_index(void *f, unsigned int i, void **d)
// { return ((int (*)(unsigned int, void **))f)(i, d); }
// static int pn_by_uuid(void *f, const char *uuid, void **d)
// { return ((int (*)(const char *, void **))f)(uuid, d); }
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Library is NVML.
type Library struct {
	symbols   [functions]unsafe.Pointer // nil: it wasn't looked up
	processes unsafe.Pointer            // room for the answer of Processes; nil: not asked yet
}

// GPU is one of the library's.
type GPU struct {
	library *Library
	handle  unsafe.Pointer
}

// Open loads NVML, which must have the functions for some questions, and initialises it.
func Open(path string, about Questions) (*Library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	loaded := C.pn_open(name)
	if loaded == nil {
		return nil, errors.New(C.GoString(C.dlerror()))
	}
	l := &Library{}
	for f := range functions {
		if table[f].about&about == 0 {
			continue
		}
		symbol := C.CString(table[f].symbol)
		l.symbols[f] = C.dlsym(loaded, symbol)
		C.free(unsafe.Pointer(symbol))
		if l.symbols[f] == nil && !table[f].newer {
			return nil, fmt.Errorf("%s lacks %s", path, table[f].symbol)
		}
	}
	f, err := l.find(initialise)
	if err != nil {
		return nil, err
	}
	if err := initialise.failed(int(C.pn_init(f))); err != nil {
		return nil, err
	}
	return l, nil
}

// find is where a function is.
func (l *Library) find(f function) (unsafe.Pointer, error) {
	if l.symbols[f] == nil {
		return nil, f.failed(functionNotFound)
	}
	return l.symbols[f], nil
}

// Count is how many GPUs there are.
func (l *Library) Count() (int, error) {
	f, err := l.find(count)
	if err != nil {
		return 0, err
	}
	var n C.uint
	err = count.failed(int(C.pn_count(f, &n)))
	return int(n), err
}

// At is the GPU with an index.
func (l *Library) At(i int) (GPU, error) {
	f, err := l.find(byIndex)
	if err != nil {
		return GPU{}, err
	}
	g := GPU{library: l}
	err = byIndex.failed(int(C.pn_by_index(f, C.uint(i), &g.handle)))
	return g, err
}

// WithUUID is the GPU with a UUID, as text.
func (l *Library) WithUUID(uuid string) (GPU, error) {
	f, err := l.find(byUUID)
	if err != nil {
		return GPU{}, err
	}
	text := C.CString(uuid)
	defer C.free(unsafe.Pointer(text))
	g := GPU{library: l}
	err = byUUID.failed(int(C.pn_by_uuid(f, text, &g.handle)))
	return g, err
}
