// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// Kind says how the warp's loop treats an instruction.
type Kind uint8

const (
	// KindCompute computes on registers; lanes that don't exist may take part.
	KindCompute Kind = iota
	// KindExecute is an operation of the warp's; it may fault, and only active lanes take part.
	KindExecute
	// KindAccess is an operation on memory; the same holds for it.
	KindAccess
	KindBranch
	KindBranchIndex
	KindCall
	KindReturn
	KindExit
	// KindBarrier waits for other warps of the block.
	KindBarrier
	// KindSync waits for the lanes of a member mask, then executes.
	KindSync
	// KindYield lets other warps run.
	KindYield
)

// Inst is a decoded instruction.
type Inst struct {
	lanes.Operands
	// Compute is what an instruction of KindCompute does, Op what one of KindExecute.
	Compute lanes.Func
	Kind    Kind
	Op      Op
	// GuardFlip is all ones for a negated guard.
	GuardFlip uint32
	Guard     uint32

	// Target is the instruction that a branch goes to.
	Target int32
	Line   int32
	// Imm is the offset of a memory access, or another constant.
	Imm  uint64
	Mem  Access
	More *More
}

// Access describes a memory instruction.
type Access struct {
	Space ptx.Space
	// Size is that of an element in bytes, count the number of elements.
	Size, Count uint8
	Signed      bool
	// Spin marks accesses by which programs wait for others.
	Spin bool
	// Waits marks those after which other warps get their turn sooner.
	Waits bool
}

// More holds what only few instructions need.
type More struct {
	// Regs are the registers of a vector, widths those of each.
	Regs    []uint32
	Widths  []lanes.Width
	Targets []int32
	Call    *CallSite
	Barrier Barrier
	Sync    Sync
	// Scalar is what an atomic operation or a reduction computes.
	Scalar  scalar.Func
	Texture *Texture
	// SourceOffset is the second offset of cp.async.
	SourceOffset uint64
}

// Sync describes an instruction that lanes execute together; op is OpNone for
// bar.warp.sync.
type Sync struct {
	Mask      uint32
	MaskWidth lanes.Width
	Op        Op
}

// Barrier describes bar and barrier instructions.
type Barrier struct {
	ID      uint32
	IDWidth lanes.Width
	// Count is the register with the number of threads, 0 for all.
	Count      uint32
	CountWidth lanes.Width
	Arrive     bool
	// Reduce is popc, and, or, or "" for none; pred the predicate reduced.
	Reduce string
	Pred   uint32
}
