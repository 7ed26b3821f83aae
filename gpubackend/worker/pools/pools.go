// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/exports"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
	"github.com/paracuda/paracuda/gpubackend/worker/streams"
)

// Driver is what Pools uses of gpubackend.Driver.
type Driver interface {
	MemAlloc(bytes uint64) (addr uint64, result gpubackend.Result)
	gpubackend.Allocating
	MemFree(addr uint64) gpubackend.Result
	GraphFree(addr uint64, s gpubackend.Stream) gpubackend.Result
	Share(addr uint64) (s gpubackend.Shared, fd int, result gpubackend.Result)
	MapShared(s gpubackend.Shared, fd int) (addr uint64, result gpubackend.Result)
	TakeShared(addr uint64, s gpubackend.Shared, fd int) gpubackend.Result
	UnmapShared(addr uint64) gpubackend.Result
	PoolAccess(device, of, access uint64) gpubackend.Result
	Capturing
}

// Contexts says in which context something is allocated, and makes it current.
type Contexts interface {
	Current() uint64
	HomeOfCurrent() uint64
	Set(handle uint64, optional bool) gpubackend.Result
}

// Streams finds a stream that the guest names.
type Streams interface {
	Find(c *call.Call, handle uint64) (gpubackend.Stream, gpubackend.Result)
}

// Config is what Pools need.
type Config struct {
	Driver   Driver
	Objects  *object.Table
	Contexts Contexts
	Fences   fences.Interface
	Streams  Streams
	Exports  exports.Interface
	// WhenIdle makes a call be answered with what then returns, when the work of its context is
	// done.
	WhenIdle func(c *call.Call, then func() (uint64, gpubackend.Result)) gpubackend.Result
	// Short says whether the VM has too little room only for now, after OutOfMemory.
	Short func() bool
	// Withdraw ends the sharing of an allocation that is freed.
	Withdraw func(address uint64)
	Offers   *offers.Offers // of this process, and the way to those of others
	Log      *logrus.Entry
}

// Pools are the guest's memory pools.
type Pools struct {
	Config
	pool     []*pool                // by number in the object table; nil if gone
	defaults map[uint64]uint64      // device to the handle of its default pool
	live     map[uint64]*allocation // by address
	loose    []*allocation          // ordinary memory that was freed in a stream
	access   map[reach]uint64       // how many pools
	shares   shares
}

// New returns Pools, none yet.
func New(c Config) *Pools {
	return &Pools{
		Config: c, defaults: map[uint64]uint64{}, live: map[uint64]*allocation{},
		access: map[reach]uint64{},
		shares: shares{
			offered:  map[uint64]*offeredSegment{},
			mapped:   map[offers.Secret]*mappedSegment{},
			pointers: map[uint64]*mappedSegment{},
		},
	}
}

// pool is one memory pool. Its attributes are indexed by CUmemPool_attribute.
type pool struct {
	device    uint64
	largest   uint64 // what it may hold, 0 for no bound
	attribute [cudaabi.MemPoolAttrUsedMemHigh + 1]uint64
	free      []*allocation // oldest first
	destroyed bool
	token     uint64 // by which processes recognise it, 0 if it can't be shared
	number    uint32 // under which it is exported, 0 if it isn't
	imported  bool   // it is another process's
}

// allocation is memory of a pool.
type allocation struct {
	pool    *pool
	address uint64
	bytes   uint64
	context uint64
	stream  uint64 // guest's handle of the stream that it was freed in
	fence   fences.Fence
	fenced  bool // its fence has not been passed

	exported *offeredSegment // that it is in, if it is exported
	imported *mappedSegment  // that it points into, if it is another process's
}

const (
	poolAlignment = devmem.Alignment
	MaxPools      = 1 << 12
	maxLoose      = 1 << 10 // allocations freed in a stream that wait for it
	// slack bounds what a request may leave unused of an allocation.
	slack = 2 << 20
)

func (s *Pools) newPool(device, largest uint64) uint64 {
	i := s.place()
	if i == MaxPools || !s.Objects.Room(object.Pool) {
		return 0
	}
	p := &pool{device: device, largest: largest}
	const (
		first = cudaabi.MemPoolAttrReuseFollowEventDependencies
		last  = cudaabi.MemPoolAttrReuseAllowInternalDependencies
	)
	for a := first; a <= last; a++ {
		p.attribute[a] = 1
	}
	if i == len(s.pool) {
		s.pool = append(s.pool, nil)
	}
	s.pool[i] = p
	return s.Objects.Add(object.Pool, uint64(i), 0)
}

// place is where a new pool goes: in the place of one that is gone, or at the end.
func (s *Pools) place() int {
	for i, p := range s.pool {
		if p == nil || p.destroyed && p.attribute[cudaabi.MemPoolAttrReservedMemCurrent] == 0 {
			return i
		}
	}
	return len(s.pool)
}

// defaultPool returns the handle of a device's own pool.
func (s *Pools) defaultPool(device uint64) uint64 {
	h, ok := s.defaults[device]
	if !ok {
		h = s.newPool(device, 0)
		s.defaults[device] = h
	}
	return h
}

func (s *Pools) findPool(handle uint64) (*pool, gpubackend.Result) {
	i, ok := s.Objects.Lookup(object.Pool, handle)
	if !ok {
		return nil, gpubackend.InvalidValue
	}
	return s.pool[i], gpubackend.Success
}

// take returns memory for a stream: a free allocation, or new memory, for which it waits or not.
// With OutOfMemory, later is as MemAllocNow says.
func (s *Pools) take(
	p *pool, bytes, stream uint64, wait bool,
) (b *allocation, later bool, result gpubackend.Result) {
	if b := s.reuse(p, bytes, stream); b != nil {
		p.count(cudaabi.MemPoolAttrUsedMemCurrent, cudaabi.MemPoolAttrUsedMemHigh, b.bytes)
		return b, false, gpubackend.Success
	}
	if p.largest != 0 && p.attribute[cudaabi.MemPoolAttrReservedMemCurrent]+bytes > p.largest {
		return nil, false, gpubackend.OutOfMemory
	}
	address, later, result := s.Driver.MemAllocNow(bytes)
	if wait && later {
		address, result = s.Driver.MemAlloc(bytes)
	}
	if result != gpubackend.Success {
		return nil, later, result
	}
	p.count(cudaabi.MemPoolAttrReservedMemCurrent, cudaabi.MemPoolAttrReservedMemHigh, bytes)
	p.count(cudaabi.MemPoolAttrUsedMemCurrent, cudaabi.MemPoolAttrUsedMemHigh, bytes)
	home := s.Contexts.HomeOfCurrent()
	b = &allocation{pool: p, address: address, bytes: bytes, context: home}
	return b, false, gpubackend.Success
}

func (p *pool) count(current, high int, bytes uint64) {
	p.attribute[current] += bytes
	p.attribute[high] = max(p.attribute[high], p.attribute[current])
}

// reuse takes the smallest free allocation that fits and is free for the stream.
func (s *Pools) reuse(p *pool, bytes, stream uint64) *allocation {
	best, home := -1, s.Contexts.HomeOfCurrent()
	for i, b := range p.free {
		if b.context != home || b.bytes < bytes ||
			b.bytes-bytes > max(bytes/4, poolAlignment) && b.bytes-bytes > slack {
			continue
		}
		if best >= 0 && p.free[best].bytes <= b.bytes {
			continue
		}
		if b.stream == stream && stream != streams.PerThread || s.idle(b) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	b := p.free[best]
	p.free = append(p.free[:best], p.free[best+1:]...)
	s.unfence(b)
	return b
}

// idle says whether all work that may use a freed allocation is done.
func (s *Pools) idle(b *allocation) bool {
	if b.fenced && s.Fences.Passed(b.fence) != gpubackend.NotReady {
		b.fenced = false
	}
	return !b.fenced
}

// unfence drops the fence of an allocation that its own stream reuses.
func (s *Pools) unfence(b *allocation) {
	if b.fenced {
		b.fenced = false
		s.Fences.Drop(b.fence)
	}
}

// trim gives idle allocations back to the driver while the pool holds more than keep. It says
// whether there were any.
func (s *Pools) trim(p *pool, keep uint64) (gave bool) {
	kept := p.free[:0]
	for _, b := range p.free {
		if p.attribute[cudaabi.MemPoolAttrReservedMemCurrent] > keep && s.idle(b) {
			s.freeAllocation(b)
			p.attribute[cudaabi.MemPoolAttrReservedMemCurrent] -= b.bytes
			gave = true
			continue
		}
		kept = append(kept, b)
	}
	clear(p.free[len(kept):])
	p.free = kept
	return gave
}

// freeAllocation frees an allocation in the context that it belongs to.
func (s *Pools) freeAllocation(b *allocation) {
	s.shares.withdraw(b)
	s.Withdraw(b.address)
	switch {
	case s.Contexts.Set(b.context, true) != gpubackend.Success:
	case b.imported != nil:
		s.dropPointer(b.imported)
	default:
		s.Driver.MemFree(b.address)
	}
}

// Settle gives back what pools hold beyond their thresholds: CUDA does so when something
// synchronises.
func (s *Pools) Settle() {
	if len(s.pool) == 0 && len(s.loose) == 0 {
		return
	}
	before := s.Contexts.Current()
	for _, p := range s.pool {
		if p != nil && len(p.free) > 0 {
			s.trim(p, p.threshold())
		}
	}
	s.settleLoose()
	s.Contexts.Set(before, true)
}

func (p *pool) threshold() uint64 {
	if p.destroyed {
		return 0
	}
	return p.attribute[cudaabi.MemPoolAttrReleaseThreshold]
}

func (s *Pools) settleLoose() {
	kept := s.loose[:0]
	for _, b := range s.loose {
		if s.idle(b) {
			s.freeAllocation(b)
		} else {
			kept = append(kept, b)
		}
	}
	clear(s.loose[len(kept):])
	s.loose = kept
}

// Empty gives back all that is idle, whatever the thresholds, since memory is short. It says
// whether there was any.
func (s *Pools) Empty() (gave bool) {
	before := s.Contexts.Current()
	for _, p := range s.pool {
		if p != nil && s.trim(p, 0) {
			gave = true
		}
	}
	n := len(s.loose)
	s.settleLoose()
	s.Contexts.Set(before, true)
	return gave || len(s.loose) < n
}

// waiting says whether any freed allocation still waits for its stream.
func (s *Pools) waiting() bool {
	for _, p := range s.pool {
		if p != nil && len(p.free) > 0 {
			return true
		}
	}
	return len(s.loose) > 0
}

// Forget drops the allocations of a context that is gone: the driver has taken its memory.
func (s *Pools) Forget(context uint64) {
	for address, b := range s.live {
		if b.context == context {
			s.shares.withdraw(b)
			delete(s.live, address)
			b.pool.attribute[cudaabi.MemPoolAttrUsedMemCurrent] -= b.bytes
			b.pool.attribute[cudaabi.MemPoolAttrReservedMemCurrent] -= b.bytes
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
				p.attribute[cudaabi.MemPoolAttrReservedMemCurrent] -= b.bytes
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
