// SPDX-License-Identifier: Apache-2.0

package driver

// #include "chain.h"
// #cgo noescape pc_chain_build
// #cgo nocallback pc_chain_build
// #cgo noescape pc_chain_replay
// #cgo nocallback pc_chain_replay
import "C"

import (
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
)

// Chain is launches as a CUDA graph, one after the other, instantiated. It is in C memory.
type Chain struct{ memory cmem.Memory }

func (c *Chain) c() *C.struct_pc_chain { return (*C.struct_pc_chain)(c.memory.Pointer()) }

// chainFunctions are the driver's graph functions, in C memory.
type chainFunctions struct{ memory cmem.Memory }

func (f *chainFunctions) c(l *library) *C.struct_pc_chain_api {
	if f.memory.Pointer() == nil {
		f.memory = cmem.Allocate(int(C.sizeof_struct_pc_chain_api))
		*(*C.struct_pc_chain_api)(f.memory.Pointer()) = C.struct_pc_chain_api{
			create: l.function[symChainCreate], add_kernel: l.function[symChainAddKernel],
			instantiate: l.function[symChainInstantiate], set_params: l.function[symChainSetParams],
			launch: l.function[symChainLaunch], exec_destroy: l.function[symChainExecDestroy],
			destroy: l.function[symChainDestroy],
		}
	}
	return (*C.struct_pc_chain_api)(f.memory.Pointer())
}

// CanChain says whether the driver has what chains need.
func (d Launches) CanChain() bool {
	for s := symChainCreate; s <= symChainDestroy; s++ {
		if d.function[s] == nil {
			return false
		}
	}
	return true
}

// BuildChain makes a chain of the first n launches that are packed, or returns nil.
func (d Launches) BuildChain(n int) *Chain {
	c := &Chain{cmem.Allocate(int(C.sizeof_struct_pc_chain))}
	if C.pc_chain_build(d.chains.c(d.library), c.c(), &d.scratch.launch[0], C.int32_t(n)) != 0 {
		c.memory.Free()
		return nil
	}
	return c
}

// LaunchChain launches a chain in the stream of the launches that are packed, of which there are as
// many as it has. Those that have changed, a byte for each, are patched first.
func (d Launches) LaunchChain(c *Chain, changed []byte) gpubackend.Result {
	d.Touch(gpubackend.Stream(d.scratch.launch[0].stream))
	// SAFETY: C reads a byte for each node of the chain during the call.
	at := (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(changed)))
	return gpubackend.Result(C.pc_chain_replay(d.chains.c(d.library), c.c(), &d.scratch.launch[0],
		at))
}

// FreeChain ends a chain.
func (d Launches) FreeChain(c *Chain) {
	C.pc_chain_free(d.chains.c(d.library), c.c())
	c.memory.Free()
}
