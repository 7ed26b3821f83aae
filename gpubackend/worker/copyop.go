// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
)

// copyOp is a copy between a mapping and device memory, while it goes on, in chunks of whole rows, or
// of pieces of one row. Where the mover has the device memory, it carries between it and guest pages, once all earlier
// work of the stream is done. Otherwise chunks go through staging memory: the mover carries between guest pages and
// staging, the driver between staging and the rest of device memory, in stream order.
type copyOp struct {
	dir     direction
	part    bool // of what a thread waits for with JOIN
	dev     box
	host    hostLayout
	stream  gpubackend.Stream
	context uint64

	mapping *maps.Map
	loan    *loan // where the mover reaches the device memory
	settled bool  // the earlier work of the stream is done

	next   position // what no chunk has been made of
	chunks int      // chunks on their way
	result gpubackend.Result
}

// position is a place in the payload: a row, and a byte in it.
type position struct {
	row row
	x   uint64
}

// advance does what can be done of a copy now. NotReady says that there is more.
func (w *Worker) advance(op *copyOp) gpubackend.Result {
	for op.result == gpubackend.Success && !op.started() {
		if op.result = w.copyable(op); op.result != gpubackend.Success {
			break
		}
		s := w.copies.take(op.loan != nil)
		if s == nil {
			break
		}
		w.startChunk(op, s)
	}
	if op.chunks > 0 || op.result == gpubackend.Success && !op.started() {
		return gpubackend.NotReady
	}
	w.maps.Release(op.mapping)
	return op.result
}

// copyable says whether there is what a copy passes through. One for which there is no staging memory goes straight if the
// mover can map where it goes, although its caller may have to wait for earlier work then: CUDA needs no memory for it.
func (w *Worker) copyable(op *copyOp) gpubackend.Result {
	if w.copies.broken != gpubackend.Success || op.loan != nil {
		return w.copies.broken
	}
	result := w.copies.open(w)
	if result == gpubackend.OutOfMemory && op.dev.contiguous() {
		if op.loan = w.lend(op.dev.address, op.dev.bytes()); op.loan != nil {
			return gpubackend.Success
		}
	}
	return result
}

// started says whether every byte belongs to a chunk.
func (op *copyOp) started() bool { return op.dev.bytes() == 0 || op.next.row.z == op.dev.depth }

// startChunk fills a slot of the staging memory, or has it filled.
func (w *Worker) startChunk(op *copyOp, s *slot) {
	s.op, s.from = op, op.next
	s.bytes = op.take(s.size)
	s.counted = true
	op.chunks++
	w.copies.flying++
	switch {
	case op.loan != nil:
		w.afterEarlier(s)
	case op.dir == toDevice:
		w.move(s)
	default:
		w.carry(s)
	}
}

// afterEarlier has the mover carry a chunk straight to or from the guest's memory on the device when the earlier work of
// the stream is done.
func (w *Worker) afterEarlier(s *slot) {
	op := s.op
	result := w.contexts.Set(op.context, true)
	if result == gpubackend.Success && !op.settled {
		result = w.driver.ContextQuery()
	}
	switch result {
	case gpubackend.Success:
		op.settled = true
		w.move(s)
		return
	case gpubackend.NotReady:
		if s.fence, result = w.fences.Mark(op.stream); result == gpubackend.Success {
			s.state = slotSettling
			return
		}
	}
	w.endChunk(s, result)
}

// take advances next by what fits in size bytes: whole rows where the row fits, else a piece of one.
func (op *copyOp) take(size uint64) (taken uint64) {
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

// eachRow calls f for every row, or piece of one, of a slot's chunk, with where it is in the slot.
func (s *slot) eachRow(f func(p position, at, n uint64) gpubackend.Result) gpubackend.Result {
	p, dev := s.from, &s.op.dev
	for at := uint64(0); at < s.bytes; {
		n := min(dev.width-p.x, s.bytes-at)
		if result := f(p, at, n); result != gpubackend.Success {
			return result
		}
		at += n
		p.x = 0
		if p.row.y++; p.row.y == dev.height {
			p.row.y = 0
			p.row.z++
		}
	}
	return gpubackend.Success
}

// move has the mover carry a slot's chunk to or from the guest's pages.
func (w *Worker) move(s *slot) {
	op := s.op
	s.state = slotMoving
	runs := w.copies.runs[:0]
	s.eachRow(func(p position, _, n uint64) gpubackend.Result {
		runs = op.mapping.Slice(runs, op.host.offset+p.row.offset(op.host.pitch, op.host.slice)+p.x, n)
		return gpubackend.Success
	})
	w.copies.runs = runs
	m := Move{ID: uint64(s.index), Staging: w.copies.staging, Offset: s.offset, ToDevice: op.dir == toDevice, Runs: runs}
	if op.loan != nil {
		if op.loan.ended {
			w.endChunk(s, gpubackend.InvalidValue)
			return
		}
		w.state.Count(handover.BytesStraight, s.bytes)
		m.Staging, m.Offset = op.loan.number, op.dev.address+op.dev.offset(s.from)-op.loan.base
	}
	err := w.mover.Start(&m)
	if err != nil {
		w.chains.complain(err, "start a copy")
		w.endChunk(s, gpubackend.Unknown)
	}
}

// carry queues the copy between a slot and the rows of device memory, and fences it.
func (w *Worker) carry(s *slot) {
	op := s.op
	s.state = slotCarrying
	if result := w.contexts.Set(op.context, true); result != gpubackend.Success {
		w.endChunk(s, result)
		return
	}
	result := s.eachRow(func(p position, at, n uint64) gpubackend.Result {
		dst, src := op.dev.address+op.dev.offset(p), w.copies.address+s.offset+at
		if op.dir == toHost {
			dst, src = src, dst
		}
		return w.driver.Copy(dst, src, n, op.stream)
	})
	if result == gpubackend.Success {
		s.fence, result = w.fences.Mark(op.stream)
	}
	if result != gpubackend.Success {
		w.endChunk(s, result)
		return
	}
	if op.dir == toDevice {
		// The source is captured: the call needs to wait for no more than that.
		s.uncount()
	}
}

// endChunk ends a chunk's part in its copy and frees the slot.
func (w *Worker) endChunk(s *slot, result gpubackend.Result) {
	if result != gpubackend.Success && s.op.result == gpubackend.Success {
		s.op.result = result
	}
	s.uncount()
	s.op, s.state = nil, slotFree
	w.copies.flying--
}

// uncount takes the chunk off those that its call waits for.
func (s *slot) uncount() {
	if s.counted {
		s.counted = false
		s.op.chunks--
	}
}

// openStaging gets the staging memory, for which pools give up what they don't need, and lends it to the mover.
func (w *Worker) openStaging(bytes uint64) (address uint64, staging uint32, result gpubackend.Result) {
	address, fd, result := w.driver.Staging(bytes)
	if result == gpubackend.OutOfMemory && w.pools.Empty() {
		address, fd, result = w.driver.Staging(bytes)
	}
	if result != gpubackend.Success {
		w.chains.complain(result.Err(), "get staging memory")
		return 0, 0, result
	}
	defer unix.Close(fd)
	staging, err := w.mover.Attach(fd, 0, bytes)
	if err == nil {
		return address, staging, gpubackend.Success
	}
	w.driver.Unstage(address)
	if errors.Is(err, ErrRefused) {
		w.chains.complain(err, "lend staging memory to the mover")
		return 0, 0, gpubackend.OutOfMemory
	}
	w.copies.fail(w, err)
	return 0, 0, w.copies.broken
}
