// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/kernelheap"
	"github.com/paracuda/paracuda/gpubackend/soft/loadstore"
)

// Dim is a size or position in three dimensions.
type Dim struct{ X, Y, Z uint32 }

// Count is the number of elements of a grid or block of this size.
func (d Dim) Count() uint64 { return uint64(d.X) * uint64(d.Y) * uint64(d.Z) }

func (d Dim) String() string { return fmt.Sprintf("[%d,%d,%d]", d.X, d.Y, d.Z) }

// A Launch is one execution of a kernel over a grid.
type Launch struct {
	Kernel *decoded.Kernel
	Grid   Dim
	Block  Dim
	// SharedBytes is the dynamic shared memory of a block.
	SharedBytes uint32
	// Params are the packed parameters, Kernel.ParamSize bytes.
	Params []byte
	Memory loadstore.Memory
	// Heap serves malloc and free of the kernel; nil makes malloc return NULL.
	Heap *kernelheap.Heap
	// SetConditional gives a conditional handle of a graph a value; and returns false if there is
	// no such handle. Any goroutine may call it. nil: there are none.
	SetConditional func(handle uint64, value uint32) bool
	// Objects are the texture and surface objects; nil: there are none.
	Objects Objects
	// Bindings are what the program's References refer to. What isn't in the list is not bound.
	Bindings []Binding
	// Stdout gets what printf prints, Assert the messages of failed
	// assertions. Each write is one whole message. nil discards.
	Stdout, Assert io.Writer
	// Cooperative keeps all blocks of the grid resident, so that they may wait
	// for each other.
	Cooperative bool
	// Workers bounds the number of blocks that run at a time; 0 means the
	// number of processors.
	Workers int
	// GridID is the value of the special register %gridid.
	GridID uint64
	// SMs is the value of the special register %nsmid; 0 means Workers.
	SMs uint32
	// PartSMs, when not 0, confines the launch to so many multiprocessors, from FirstSM on, which
	// is also how many blocks run at a time.
	FirstSM, PartSMs uint32
	// StackBytes bounds a thread's local memory; 0 means DefaultStack.
	StackBytes uint64
	// HostMemory is what registers, shared and local memory count for while the launch runs; nil:
	// nothing. Where it is short, fewer blocks run at a time; a launch or call for which there is
	// none fails with cudaabi.ErrorOutOfMemory.
	HostMemory *budget.Budget
	// Stats, when not nil, is filled in by Run.
	Stats *Stats
}

// DefaultStack is the bound on a thread's local memory when a launch names
// none.
const DefaultStack = 512 << 10

// Stats counts what a launch executed.
type Stats struct {
	// Instructions counts per warp, ThreadInstructions per active lane.
	Instructions, ThreadInstructions uint64
}

// KernelError is what went wrong in a kernel or with its launch.
type KernelError struct {
	// Code is CUDA's error code for it (CUresult).
	Code int
	// Detail says what happened and where, for a log.
	Detail string
	// Starved is set where the launch didn't begin, for want of the host's memory: it may be run
	// again when another has ended.
	Starved bool
}

func (f *KernelError) Error() string { return fmt.Sprintf("kernel fault %d: %s", f.Code, f.Detail) }
