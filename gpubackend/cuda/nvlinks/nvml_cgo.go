// SPDX-License-Identifier: Apache-2.0

package nvlinks

// #cgo LDFLAGS: -ldl
// #cgo CFLAGS: -O2 -Wall -Wextra
// #include <dlfcn.h>
// #include <stdlib.h>
//
// struct pn_pci {
//	char legacy[16];
//	unsigned int domain, bus, device, id, subsystem;
//	char text[32];
// };
// struct pn_field {
//	unsigned int field, scope;
//	long long timestamp, latency;
//	int type, result;
//	unsigned long long value;
// };
//
// struct pn_memory { unsigned long long total, free, used; };
//
// static void *pn_open(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
// static int pn_init(void *f) { return ((int (*)(void))f)(); }
// static int pn_device(void *f, const char *uuid, void **d)
// { return ((int (*)(const char *, void **))f)(uuid, d); }
// static int pn_number(void *f, void *d, unsigned int link, unsigned int *out)
// { return ((int (*)(void *, unsigned int, unsigned int *))f)(d, link, out); }
// static int pn_capability(void *f, void *d, unsigned int link, unsigned int what,
//	unsigned int *out)
// { return ((int (*)(void *, unsigned int, unsigned int, unsigned int *))f)(d, link, what, out); }
// static int pn_remote(void *f, void *d, unsigned int link, struct pn_pci *out)
// { return ((int (*)(void *, unsigned int, struct pn_pci *))f)(d, link, out); }
// static int pn_fields(void *f, void *d, struct pn_field *one)
// { return ((int (*)(void *, int, struct pn_field *))f)(d, 1, one); }
// static int pn_p2p(void *f, void *d, void *other, unsigned int kind, unsigned int *out)
// { return ((int (*)(void *, void *, unsigned int, unsigned int *))f)(d, other, kind, out); }
// static int pn_memory(void *f, void *d, struct pn_memory *out)
// { return ((int (*)(void *, struct pn_memory *))f)(d, out); }
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// functions are those of the library that are called, by their names.
var functions = [...]string{
	"nvmlInit_v2", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetNvLinkState",
	"nvmlDeviceGetNvLinkVersion", "nvmlDeviceGetNvLinkCapability",
	"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemoteDeviceType",
	"nvmlDeviceGetFieldValues", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetP2PStatus",
}

const (
	initFunction = iota
	deviceFunction
	stateFunction
	versionFunction
	capabilityFunction
	remoteFunction
	remoteTypeFunction
	fieldsFunction
	memoryFunction
	p2pFunction
)

// handle is NVML's handle of a GPU.
type handle unsafe.Pointer

// library is NVML. One goroutine uses it.
type library struct {
	function [len(functions)]unsafe.Pointer
}

// open loads NVML and initialises it. It stays loaded.
func open(path string) (*library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	loaded := C.pn_open(name)
	if loaded == nil {
		return nil, errors.New(C.GoString(C.dlerror()))
	}
	l := &library{}
	for i, function := range functions {
		name := C.CString(function)
		l.function[i] = C.dlsym(loaded, name)
		C.free(unsafe.Pointer(name))
		if l.function[i] == nil {
			return nil, fmt.Errorf("%s lacks %s", path, function)
		}
	}
	if r := C.pn_init(l.function[initFunction]); r != 0 {
		return nil, fmt.Errorf("nvmlInit: error %d", int(r))
	}
	return l, nil
}

// device is the handle of a GPU.
func (l *library) device(uuid string) (handle, bool) {
	text := C.CString(uuid)
	defer C.free(unsafe.Pointer(text))
	var d unsafe.Pointer
	r := C.pn_device(l.function[deviceFunction], text, &d)
	return handle(d), r == 0
}

// number asks one of the functions that give a number for a link.
func (l *library) number(function int, d handle, link uint32) (uint32, bool) {
	var out C.uint
	r := C.pn_number(l.function[function], unsafe.Pointer(d), C.uint(link), &out)
	return uint32(out), r == 0
}

func (l *library) state(d handle, link uint32) (uint32, bool) {
	return l.number(stateFunction, d, link)
}

func (l *library) version(d handle, link uint32) (uint32, bool) {
	return l.number(versionFunction, d, link)
}

func (l *library) remoteType(d handle, link uint32) (uint32, bool) {
	return l.number(remoteTypeFunction, d, link)
}

func (l *library) capable(d handle, link, what uint32) bool {
	var out C.uint
	r := C.pn_capability(l.function[capabilityFunction], unsafe.Pointer(d), C.uint(link),
		C.uint(what), &out)
	return r == 0 && out != 0
}

// remote is where the other end of a link is.
func (l *library) remote(d handle, link uint32) (domain, bus, device uint32, ok bool) {
	var p C.struct_pn_pci
	r := C.pn_remote(l.function[remoteFunction], unsafe.Pointer(d), C.uint(link), &p)
	return uint32(p.domain), uint32(p.bus), uint32(p.device), r == 0
}

// field is a value of a link; 0: NVML doesn't know it.
func (l *library) field(d handle, field, link uint32) uint32 {
	f := C.struct_pn_field{field: C.uint(field), scope: C.uint(link)}
	r := C.pn_fields(l.function[fieldsFunction], unsafe.Pointer(d), &f)
	if r != 0 || f.result != 0 {
		return 0
	}
	return uint32(f.value)
}

// p2p is the status of a kind of access from a GPU to another, or itself.
func (l *library) p2p(d, other handle, kind uint32) (uint32, bool) {
	var out C.uint
	r := C.pn_p2p(l.function[p2pFunction], unsafe.Pointer(d), unsafe.Pointer(other), C.uint(kind),
		&out)
	return uint32(out), r == 0
}

// free is how much memory of a GPU is free; 0: NVML doesn't know it.
func (l *library) free(d handle) uint64 {
	var m C.struct_pn_memory
	if C.pn_memory(l.function[memoryFunction], unsafe.Pointer(d), &m) != 0 {
		return 0
	}
	return uint64(m.free)
}
