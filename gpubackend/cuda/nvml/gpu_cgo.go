// SPDX-License-Identifier: Apache-2.0

package nvml

// #include <stdlib.h>
//
// struct pn_memory { unsigned long long total, free, used; };
// struct pn_process {
//	unsigned int pid;
//	unsigned long long used;
//	unsigned int gpu_instance, compute_instance;
// };
//
// static int pn_uuid(void *f, void *d, char *text, unsigned int room)
// { return ((int (*)(void *, char *, unsigned int))f)(d, text, room); }
// static int pn_memory(void *f, void *d, struct pn_memory *out)
// { return ((int (*)(void *, struct pn_memory *))f)(d, out); }
// static int pn_p2p(void *f, void *d, void *other, unsigned int kind, unsigned int *out)
// { return ((int (*)(void *, void *, unsigned int, unsigned int *))f)(d, other, kind, out); }
// static int pn_processes(void *f, void *d, unsigned int *n, struct pn_process *list)
// { return ((int (*)(void *, unsigned int *, struct pn_process *))f)(d, n, list); }
import "C"

import "unsafe"

// mostProcesses bounds the processes of a GPU.
const mostProcesses = 4096

// UUID is the GPU's, as text.
func (g GPU) UUID() (string, error) {
	f, err := g.library.find(uuidOf)
	if err != nil {
		return "", err
	}
	var text [96]C.char
	r := C.pn_uuid(f, g.handle, &text[0], C.uint(len(text)))
	text[len(text)-1] = 0
	return C.GoString(&text[0]), uuidOf.failed(int(r))
}

// Free is how much of the GPU's memory is free.
func (g GPU) Free() (uint64, error) {
	f, err := g.library.find(memoryInfo)
	if err != nil {
		return 0, err
	}
	var m C.struct_pn_memory
	err = memoryInfo.failed(int(C.pn_memory(f, g.handle, &m)))
	return uint64(m.free), err
}

// P2P is the status of a kind of access to another GPU, or to itself.
func (g GPU) P2P(to GPU, kind uint32) (uint32, error) {
	f, err := g.library.find(p2pStatus)
	if err != nil {
		return 0, err
	}
	var out C.uint
	err = p2pStatus.failed(int(C.pn_p2p(f, g.handle, to.handle, C.uint(kind), &out)))
	return uint32(out), err
}

// Processes are those that compute on the GPU. A process may be there more than once.
func (g GPU) Processes() ([]Process, error) {
	f, err := g.library.find(runningProcesses)
	if err != nil {
		return nil, err
	}
	if g.library.processes == nil {
		g.library.processes = C.calloc(mostProcesses, C.sizeof_struct_pn_process)
	}
	list, n := (*C.struct_pn_process)(g.library.processes), C.uint(mostProcesses)
	r := C.pn_processes(f, g.handle, &n, list)
	if err := runningProcesses.failed(int(r)); err != nil {
		return nil, err
	}
	all := make([]Process, min(n, mostProcesses))
	// SAFETY: the list has room for as many, which the library was told, and was zeroed.
	for i, p := range unsafe.Slice(list, len(all)) {
		all[i] = Process{int(p.pid), uint64(p.used)}
	}
	return all, nil
}
