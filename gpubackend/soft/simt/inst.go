// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// opKind says how the warp's loop treats an instruction.
type opKind uint8

const (
	// kindALU computes on registers; lanes that don't exist may take part.
	kindALU opKind = iota
	// kindMemory may fault; only active lanes take part.
	kindMemory
	kindBranch
	kindBranchIndex
	kindCall
	kindReturn
	kindExit
	// kindBarrier waits for other warps of the block.
	kindBarrier
	// kindSync waits for the lanes of a member mask, then executes.
	kindSync
	// kindYield lets other warps run.
	kindYield
)

// execFunc executes an instruction for the lanes of mask m.
type execFunc func(w *warp, in *inst, m uint32)

// inst is a decoded instruction.
type inst struct {
	lanes.Operands
	// compute is what an instruction of kindALU does, exec any other's.
	compute lanes.Func
	exec    execFunc
	kind    opKind
	// guardFlip is all ones for a negated guard.
	guardFlip uint32
	guard     uint32

	// target is the instruction that a branch goes to.
	target int32
	line   int32
	// imm is the offset of a memory access, or another constant.
	imm  uint64
	mem  memAccess
	more *instMore
}

// memAccess describes a memory instruction.
type memAccess struct {
	space ptx.Space
	// size is that of an element in bytes, count the number of elements.
	size, count uint8
	signed      bool
	// spin marks accesses by which programs wait for others.
	spin bool
}

// instMore holds what only few instructions need.
type instMore struct {
	// regs are the registers of a vector, widths those of each.
	regs    []uint32
	widths  []lanes.Width
	targets []int32
	call    *callSite
	barrier barrierOp
	sync    syncOp
	atomic  atomicFunc
	texture *textureOp
	// sourceOffset is the second offset of cp.async.
	sourceOffset uint64
}
