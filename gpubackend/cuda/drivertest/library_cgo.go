// SPDX-License-Identifier: Apache-2.0

package drivertest

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdint.h>
// #include <stdlib.h>
//
// static int32_t call_fake(void *f, uint64_t a, uint64_t b)
// {
//	return ((int32_t (*)(uint64_t, uint64_t))f)(a, b);
// }
//
// static void *find_fake(const char *path, const char *name)
// {
//	void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
//	void *function = library ? dlsym(library, name) : NULL;
//
//	if (library)
//		dlclose(library);
//	return function;
// }
import "C"

import "unsafe"

// call calls a function of a library that is loaded, with up to two numbers. It says whether the
// function is there.
func call(path, name string, arguments ...uint64) bool {
	cPath, cName := C.CString(path), C.CString(name)
	defer C.free(unsafe.Pointer(cPath))
	defer C.free(unsafe.Pointer(cName))
	f := C.find_fake(cPath, cName)
	if f == nil {
		return false
	}
	var a [2]uint64
	copy(a[:], arguments)
	C.call_fake(f, C.uint64_t(a[0]), C.uint64_t(a[1]))
	return true
}
