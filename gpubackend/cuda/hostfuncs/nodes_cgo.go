// SPDX-License-Identifier: Apache-2.0

package hostfuncs

// #include "node.h"
import "C"

import (
	"sync"
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
)

// nodeCall marks the message of a call of a graph's host function: the rest is the call's address.
const nodeCall = 1 << 63

// callNode calls a host function that is due.
func (v *Calls) callNode(address uint64) {
	due := (*C.struct_pc_due)(cmem.Pointer(address))
	token := uint64(C.pc_due_token(due))
	v.mu.Lock()
	f := v.kept[token]
	v.due[address] = true
	v.mu.Unlock()
	var once sync.Once
	release := func() { once.Do(func() { v.endNode(address) }) }
	if f == nil {
		release()
		return
	}
	f(token, release)
}

// endNode lets the stream of a call go on.
func (v *Calls) endNode(address uint64) {
	v.mu.Lock()
	held := v.due[address]
	delete(v.due, address)
	v.mu.Unlock()
	if held {
		C.pc_due_release((*C.struct_pc_due)(cmem.Pointer(address)))
	}
}

// endNodes does so for all.
func (v *Calls) endNodes() {
	v.mu.Lock()
	left := make([]uint64, 0, len(v.due))
	for address := range v.due {
		left = append(left, address)
	}
	v.mu.Unlock()
	for _, address := range left {
		v.endNode(address)
	}
}

// keep remembers a graph's host function and returns what the driver is given for it. That memory
// stays: the driver doesn't say when the last graph with the node is gone. There is one for each
// function.
func (v *Calls) keep(token uint64, f gpubackend.HostCall) *C.struct_pc_node {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kept[token] = f
	if node := v.nodes[token]; node != nil {
		return node
	}
	node := (*C.struct_pc_node)(cmem.Allocate(int(C.sizeof_struct_pc_node)).Pointer())
	node.token = C.uint64_t(token)
	node.pipe = v.writer
	v.nodes[token] = node
	return node
}

// Due are the tokens of graphs' functions that were called and haven't returned. Those that may be
// a stream's own aren't among them.
func (v *Calls) Due() (tokens []uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for address := range v.due {
		token := uint64(C.pc_due_token((*C.struct_pc_due)(cmem.Pointer(address))))
		if !v.loose[token] {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// Kept queues a function in a stream, by cuLaunchHostFunc: f is called whenever it is due. If the
// stream is captured that is when its graph runs.
func (v *Calls) Kept(
	launch unsafe.Pointer, s gpubackend.Stream, captured bool, token uint64, f gpubackend.HostCall,
) gpubackend.Result {
	if !captured {
		v.mu.Lock()
		v.loose[token] = true
		v.mu.Unlock()
	}
	return gpubackend.Result(C.pc_node_launch(launch, C.uint64_t(s), v.keep(token, f)))
}

// Node gives the function and its data for a host node.
func (v *Calls) Node(token uint64, f gpubackend.HostCall) (function, data uint64) {
	// SAFETY: addresses of a function and of memory of C.
	return uint64(uintptr(C.pc_node_run)), uint64(uintptr(unsafe.Pointer(v.keep(token, f))))
}

// Token returns the token of a host node's data, 0 if this package didn't make the node.
func Token(function, data uint64) uint64 {
	if function != uint64(uintptr(C.pc_node_run)) || data == 0 {
		return 0
	}
	return uint64((*C.struct_pc_node)(cmem.Pointer(data)).token)
}
