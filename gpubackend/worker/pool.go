// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
	"github.com/paracuda/paracuda/gpubackend/worker/streams"
)

// pools are the guest's memory pools. They are the worker's own, over the driver's device memory, so that their
// addresses lie in the window and their memory counts like all other. A block that is freed waits for its stream; in
// that stream it may be used again at once. Memory of a pool goes with the context that it was allocated in.
type pools struct {
	pool     []*pool           // by the number that the object table has; nil for one that is gone
	defaults map[uint64]uint64 // device to the handle of its default pool
	live     map[uint64]*block // by address
	loose    []*block          // ordinary memory that was freed in a stream
	shares   poolShares
}

// pool is one memory pool. Its attributes are indexed by CUmemPool_attribute.
type pool struct {
	device    uint64
	largest   uint64 // what it may hold, 0 for no bound
	attribute [poolAttributes]uint64
	free      []*block // oldest first
	destroyed bool
	token     uint64 // by which processes know it, 0 if it can't be shared
	number    uint32 // by which it is exported, 0 if it isn't
	imported  bool   // it is another process's
}

// CUmemPool_attribute.
const (
	poolReuseEvents   = 1
	poolReuseInternal = 3
	poolThreshold     = 4
	poolReserved      = 5
	poolReservedHigh  = 6
	poolUsed          = 7
	poolUsedHigh      = 8
	poolAttributes    = 9
)

// block is memory of a pool.
type block struct {
	pool    *pool
	address uint64
	bytes   uint64
	context uint64
	stream  uint64 // guest's handle of the stream that it was freed in
	fence   fences.Fence
	fenced  bool // the fence has not been passed

	exported *offeredPiece // that it is in, if it is exported
	imported *mappedPiece  // that it points into, if it is another process's
}

const (
	poolAlignment = 512
	maxPools      = 1 << 12
	maxLoose      = 1 << 10 // blocks freed in a stream that wait for it
	// slack bounds what an allocation may leave unused of a block.
	slack = 2 << 20
)

func (w *Worker) newPool(device, largest uint64) uint64 {
	i := w.pools.place()
	if i == maxPools || !w.objects.Room(object.Pool) {
		return 0
	}
	p := &pool{device: device, largest: largest}
	for a := poolReuseEvents; a <= poolReuseInternal; a++ {
		p.attribute[a] = 1
	}
	if i == len(w.pools.pool) {
		w.pools.pool = append(w.pools.pool, nil)
	}
	w.pools.pool[i] = p
	return w.objects.Add(object.Pool, uint64(i), 0)
}

// place is where a new pool goes: where one was that is gone, or at the end.
func (s *pools) place() int {
	for i, p := range s.pool {
		if p == nil || p.destroyed && p.attribute[poolReserved] == 0 {
			return i
		}
	}
	return len(s.pool)
}

// defaultPool returns the handle of a device's own pool.
func (w *Worker) defaultPool(device uint64) uint64 {
	h, ok := w.pools.defaults[device]
	if !ok {
		if w.pools.defaults == nil {
			w.pools.defaults = map[uint64]uint64{}
		}
		h = w.newPool(device, 0)
		w.pools.defaults[device] = h
	}
	return h
}

func (w *Worker) findPool(handle uint64) (*pool, gpubackend.Result) {
	i, ok := w.objects.Lookup(object.Pool, handle)
	if !ok {
		return nil, gpubackend.InvalidValue
	}
	return w.pools.pool[i], gpubackend.Success
}

// take gives out memory for a stream: a free block, or new memory.
func (p *pool) take(w *Worker, bytes, stream uint64) (*block, gpubackend.Result) {
	if b := p.reuse(w, bytes, stream); b != nil {
		p.count(poolUsed, poolUsedHigh, b.bytes)
		return b, gpubackend.Success
	}
	if p.largest != 0 && p.attribute[poolReserved]+bytes > p.largest {
		return nil, gpubackend.OutOfMemory
	}
	address, result := w.driver.MemAlloc(bytes)
	if result != gpubackend.Success {
		return nil, result
	}
	p.count(poolReserved, poolReservedHigh, bytes)
	p.count(poolUsed, poolUsedHigh, bytes)
	return &block{pool: p, address: address, bytes: bytes, context: w.contexts.HomeOfCurrent()}, gpubackend.Success
}

func (p *pool) count(current, high int, bytes uint64) {
	p.attribute[current] += bytes
	p.attribute[high] = max(p.attribute[high], p.attribute[current])
}

// reuse takes the smallest free block that fits and is free for the stream.
func (p *pool) reuse(w *Worker, bytes, stream uint64) *block {
	best, home := -1, w.contexts.HomeOfCurrent()
	for i, b := range p.free {
		if b.context != home || b.bytes < bytes || b.bytes-bytes > max(bytes/4, poolAlignment) && b.bytes-bytes > slack {
			continue
		}
		if best >= 0 && p.free[best].bytes <= b.bytes {
			continue
		}
		if b.stream == stream && stream != streams.PerThread || b.idle(w) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	b := p.free[best]
	p.free = append(p.free[:best], p.free[best+1:]...)
	b.unfence(w)
	return b
}

// idle says whether all work that might use a freed block is done.
func (b *block) idle(w *Worker) bool {
	if b.fenced && w.fences.Passed(b.fence) != gpubackend.NotReady {
		b.fenced = false
	}
	return !b.fenced
}

// unfence gives up the fence of a block that its own stream uses again.
func (b *block) unfence(w *Worker) {
	if b.fenced {
		b.fenced = false
		w.fences.Drop(b.fence)
	}
}

// trim gives the driver blocks that are idle while the pool holds more than keep. It says whether it could.
func (p *pool) trim(w *Worker, keep uint64) (gave bool) {
	kept := p.free[:0]
	for _, b := range p.free {
		if p.attribute[poolReserved] > keep && b.idle(w) {
			w.freeBlock(b)
			p.attribute[poolReserved] -= b.bytes
			gave = true
			continue
		}
		kept = append(kept, b)
	}
	clear(p.free[len(kept):])
	p.free = kept
	return gave
}

// freeBlock frees a block in the context that it belongs to.
func (w *Worker) freeBlock(b *block) {
	w.pools.shares.withdraw(b)
	w.shares.withdraw(b.address)
	switch {
	case w.contexts.Set(b.context, true) != gpubackend.Success:
	case b.imported != nil:
		w.dropPointer(b.imported)
	default:
		w.driver.MemFree(b.address)
	}
}

// settle gives back what pools hold beyond their thresholds: CUDA does so when something synchronises.
func (s *pools) settle(w *Worker) {
	if len(s.pool) == 0 && len(s.loose) == 0 {
		return
	}
	before := w.contexts.Current()
	for _, p := range s.pool {
		if p != nil && len(p.free) > 0 {
			p.trim(w, p.threshold())
		}
	}
	s.settleLoose(w)
	w.contexts.Set(before, true)
}

func (p *pool) threshold() uint64 {
	if p.destroyed {
		return 0
	}
	return p.attribute[poolThreshold]
}

func (s *pools) settleLoose(w *Worker) {
	kept := s.loose[:0]
	for _, b := range s.loose {
		if b.idle(w) {
			w.freeBlock(b)
		} else {
			kept = append(kept, b)
		}
	}
	clear(s.loose[len(kept):])
	s.loose = kept
}

// empty gives back all that is idle, whatever the thresholds: memory is short. It says whether there was any.
func (s *pools) empty(w *Worker) (gave bool) {
	before := w.contexts.Current()
	for _, p := range s.pool {
		if p != nil && p.trim(w, 0) {
			gave = true
		}
	}
	n := len(s.loose)
	s.settleLoose(w)
	w.contexts.Set(before, true)
	return gave || len(s.loose) < n
}

// waiting says whether any freed block still waits for its stream.
func (s *pools) waiting() bool {
	for _, p := range s.pool {
		if p != nil && len(p.free) > 0 {
			return true
		}
	}
	return len(s.loose) > 0
}

// forget drops the blocks of a context that is gone: the driver has taken its memory.
func (s *pools) forget(context uint64) {
	for address, b := range s.live {
		if b.context == context {
			s.shares.withdraw(b)
			delete(s.live, address)
			b.pool.attribute[poolUsed] -= b.bytes
			b.pool.attribute[poolReserved] -= b.bytes
		}
	}
	for _, p := range s.pool {
		if p == nil {
			continue
		}
		kept := p.free[:0]
		for _, b := range p.free {
			if b.context == context {
				s.shares.withdraw(b)
				p.attribute[poolReserved] -= b.bytes
				continue
			}
			kept = append(kept, b)
		}
		p.free = kept
	}
	kept := s.loose[:0]
	for _, b := range s.loose {
		switch {
		case b.context != context:
			kept = append(kept, b)
		case b.imported != nil:
			b.imported.pointers--
		}
	}
	s.loose = kept
	s.shares.forget(context)
}
