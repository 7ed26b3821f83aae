// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
)

// operation is a copy between a map and device memory while it is under way, in chunks of whole
// rows, or of bytes of one row (chunk.go). Its call waits for it.
type operation struct {
	t       *Copies
	dir     direction
	dev     box
	host    hostLayout
	stream  gpubackend.Stream
	context uint64

	mapping *maps.Map
	asked   uint64 // number of the request for the mover that it waits for; 0: none
	lends   bool   // its device memory is to be lent to the mover
	loan    *loan  // where the mover reaches the device memory
	settled bool   // the earlier work of the stream is done
	waits   bool   // for fence, before it gets a chunk
	fence   fences.Fence
	parts   *parts // to which the copy belongs, for a JOIN

	next   cursor // where the next chunk begins
	chunks int    // chunks under way
	result gpubackend.Result
}

// cursor is a place in the payload: a row, and a byte in it.
type cursor struct {
	row row
	x   uint64
}

// Advance does as much of a copy as can be done now. NotReady says that there is more to do.
func (op *operation) Advance() gpubackend.Result {
	if result := op.t.Contexts.Set(op.context, true); result != gpubackend.Success {
		return result
	}
	for op.result == gpubackend.Success && !op.started() {
		result := op.t.copyable(op)
		if result == gpubackend.NotReady {
			break
		}
		if op.result = result; result != gpubackend.Success {
			break
		}
		c := op.t.chunks.take(op.loan != nil)
		if c == nil || !op.t.May() || !op.t.admits(op) {
			break
		}
		op.t.start(c, op)
	}
	if op.chunks > 0 || op.result == gpubackend.Success && !op.started() {
		return gpubackend.NotReady
	}
	if op.waits {
		op.t.Fences.Drop(op.fence)
	}
	op.t.Maps.Release(op.mapping)
	return op.result
}

// Over says whether the caller is answered: for one of several parts JOIN is.
func (op *operation) Over(result gpubackend.Result) (answered bool) {
	if op.parts == nil {
		return true
	}
	op.parts.running--
	op.parts.note(result)
	op.t.Failed(result)
	return false
}

// copyable says whether there is a way for a copy; NotReady: soon. A copy for which there is no
// staging memory goes directly if the mover can map its device memory, even if the caller then
// waits for earlier work: CUDA needs no memory for it either.
func (t *Copies) copyable(op *operation) gpubackend.Result {
	if result := t.reachable(op); result != gpubackend.Success {
		return result
	}
	if op.lends {
		op.lends, op.loan = false, t.lend(op.dev.address, op.dev.bytes())
	}
	if op.loan != nil && op.loan.recalled { // if it can't be lent again, the copy is staged
		op.loan = t.lend(op.dev.address, op.dev.bytes())
	}
	if t.reach.broken != gpubackend.Success || op.loan != nil {
		return t.reach.broken
	}
	result := t.open()
	if result == gpubackend.OutOfMemory && op.dev.contiguous() {
		if op.loan = t.lend(op.dev.address, op.dev.bytes()); op.loan != nil {
			return gpubackend.Success
		}
	}
	return result
}

// admits says whether a copy gets a chunk now. One whose stream has earlier work keeps its chunks
// until that is done, which may need other copies: so there is a bound for such chunks, beyond
// which a copy waits without one.
func (t *Copies) admits(op *operation) bool {
	if !op.settled && !op.waits && t.chunks.early(op.loan != nil) {
		return true
	}
	if result := t.await(op); result != gpubackend.Success && result != gpubackend.NotReady {
		op.result = result
	}
	return op.settled
}

// await asks, for a copy without a chunk, whether the earlier work of its stream is done.
func (t *Copies) await(op *operation) (result gpubackend.Result) {
	switch {
	case op.settled:
		return gpubackend.Success
	case !op.waits:
		if op.fence, result = t.Fences.Mark(op.stream); result != gpubackend.Success {
			return result
		}
		op.waits = true
	}
	if result = t.Fences.Passed(op.fence); result != gpubackend.NotReady {
		op.waits, op.settled = false, result == gpubackend.Success
	}
	return result
}

// started says whether every byte belongs to a chunk.
func (op *operation) started() bool { return op.dev.bytes() == 0 || op.next.row.z == op.dev.depth }

// take advances next by what fits in size bytes: whole rows if a row fits, else bytes of one.
func (op *operation) take(size uint64) (taken uint64) {
	for taken < size && !op.started() {
		n := min(op.dev.width-op.next.x, size-taken)
		if taken > 0 && n < op.dev.width-op.next.x {
			break
		}
		taken += n
		op.next.x += n
		if op.next.x == op.dev.width {
			op.next.x = 0
			op.next.row.y++
		}
		if op.next.row.y == op.dev.height {
			op.next.row.y = 0
			op.next.row.z++
		}
	}
	return taken
}
