// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// flushRemoteWrites asks that a wait make other devices' writes visible. As on most GPUs it isn't
// supported (CAN_FLUSH_REMOTE_WRITES).
const flushRemoteWrites = cudaabi.StreamWaitValueFlush

// memOp is an operation on a word of memory.
type memOp struct {
	address, value uint64
	size           uint64 // of the word in bytes; 0: there is nothing to do
	write          bool
	compare        uint64 // how a wait compares
}

// StreamMemOps implements gpubackend.Driver: a task that does one operation after another.
func (x *Streams) StreamMemOps(
	h gpubackend.Stream, ops []byte, flags uint64,
) gpubackend.Result {
	s, result := x.Target(h)
	if result != gpubackend.Success {
		return result
	}
	n := &gpubackend.Node{Type: gpubackend.NodeMemOps, Flags: flags, Ops: ops}
	if result := x.CheckMemOps(n); result != gpubackend.Success {
		return result
	}
	if s.capture != nil {
		return x.Record(s, n)
	}
	list, _ := decodeMemOps(ops)
	x.Enqueue(s, x.memOpsTask(list, s.ctx))
	return gpubackend.Success
}

// CheckMemOps refuses operations that couldn't be done, each by itself and in their order.
func (x *Streams) CheckMemOps(n *gpubackend.Node) gpubackend.Result {
	if n.Flags != 0 || len(n.Ops)%cudaabi.StreamBatchMemOpParamsSize != 0 {
		return gpubackend.InvalidValue
	}
	list, result := decodeMemOps(n.Ops)
	if result != gpubackend.Success {
		return result
	}
	for _, op := range list {
		if op.size != 0 && !x.options.Memory.Reaches(op.address, op.size, op.write) {
			return gpubackend.InvalidValue
		}
	}
	return gpubackend.Success
}

// PrepareMemOps prepares a node of a graph.
func (x *Streams) PrepareMemOps(
	n *gpubackend.Node, c *contexts.Context,
) (func() *scheduler.Task, gpubackend.Result) {
	list, result := decodeMemOps(bytes.Clone(n.Ops))
	return func() *scheduler.Task { return x.memOpsTask(list, c) }, result
}

// decodeMemOps reads a list of CUstreamBatchMemOpParams.
func decodeMemOps(b []byte) ([]memOp, gpubackend.Result) {
	const size = cudaabi.StreamBatchMemOpParamsSize
	list := make([]memOp, 0, len(b)/size)
	for ; len(b) >= size; b = b[size:] {
		op, result := decodeMemOp(cudaabi.StreamBatchMemOpParams(b))
		if result != gpubackend.Success {
			return nil, result
		}
		list = append(list, op)
	}
	return list, gpubackend.Success
}

func decodeMemOp(p cudaabi.StreamBatchMemOpParams) (memOp, gpubackend.Result) {
	op := memOp{address: p.WriteValueAddress(), value: p.WriteValueValue64(), size: 8}
	flags := uint64(p.WriteValueFlags())
	switch p.Operation() {
	case cudaabi.MemOpWriteValue32, cudaabi.MemOpWaitValue32:
		op.size, op.value = 4, uint64(p.WriteValueValue())
	case cudaabi.MemOpWriteValue64, cudaabi.MemOpWaitValue64:
	case cudaabi.MemOpBarrier: // each operation is seen before the next one begins
		return memOp{}, gpubackend.Success
	case cudaabi.MemOpFlushRemoteWrites:
		return memOp{}, gpubackend.NotSupported
	default:
		return memOp{}, gpubackend.InvalidValue
	}
	switch p.Operation() {
	case cudaabi.MemOpWriteValue32, cudaabi.MemOpWriteValue64:
		op.write = true
		if flags&^cudaabi.StreamWriteValueNoMemoryBarrier != 0 {
			return op, gpubackend.InvalidValue
		}
	default:
		op.compare = flags &^ flushRemoteWrites
		switch {
		case flags&flushRemoteWrites != 0:
			return op, gpubackend.NotSupported
		case op.compare > cudaabi.StreamWaitValueNor:
			return op, gpubackend.InvalidValue
		}
	}
	if op.address == 0 || op.address%op.size != 0 {
		return op, gpubackend.InvalidValue
	}
	return op, gpubackend.Success
}

// memOpsTask makes the task of a list of operations. While one of them waits, the task counts as
// one that waits for the host, since the caller may have to write what it waits for.
func (x *Streams) memOpsTask(list []memOp, c *contexts.Context) *scheduler.Task {
	t := &scheduler.Task{
		Class: scheduler.Host, Domain: c.Domain, Quick: true,
		Payload: uint64(len(list)) * memOpBytes,
	}
	t.Run = func() {
		left := list
		x.options.Scheduler.Poll(t, func() bool {
			for len(left) > 0 {
				done, ok := x.step(left[0])
				if !ok {
					c.Fail(gpubackend.IllegalAddress)
					return true
				}
				if !done {
					return false
				}
				left = left[1:]
			}
			return true
		})
	}
	return t
}

// memOpBytes is what an operation that waits counts for of the host's memory.
const memOpBytes = 64

// step does an operation if its time has come; a write's always has. ok is false if its memory is
// gone.
func (x *Streams) step(op memOp) (done, ok bool) {
	if op.size == 0 {
		return true, true
	}
	if !x.options.Memory.Space().Covers(op.address, op.size, op.write) {
		return false, false
	}
	if op.write {
		space.StoreWord(op.address, op.size, op.value)
		return true, true
	}
	return op.holds(space.LoadWord(op.address, op.size)), true
}

// holds says whether a wait for a word that has this value is over.
func (op *memOp) holds(word uint64) bool {
	bits := 8 * op.size
	unused := 64 - bits
	switch op.compare {
	case cudaabi.StreamWaitValueGeq: // in a circle: the difference isn't negative
		return int64((word-op.value)<<unused) >= 0
	case cudaabi.StreamWaitValueEQ:
		return word == op.value
	case cudaabi.StreamWaitValueAnd:
		return word&op.value != 0
	default: // NOR
		return ^(word|op.value)<<unused != 0
	}
}
