// SPDX-License-Identifier: Apache-2.0

package devmem

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// Errors of a Heap.
var (
	// ErrOutOfMemory means that the limit, the addresses or the backing's memory are used up.
	ErrOutOfMemory = errors.New("out of device memory")
	// ErrNotAllocated means that no allocation begins at the address.
	ErrNotAllocated = errors.New("no allocation at this address")
	// ErrInvalid means that an argument is zero or not aligned.
	ErrInvalid = errors.New("invalid size or address")
)

const (
	// Base and Window are the usual window of addresses: no address space layout of Linux or of the
	// CUDA driver uses it. The windows of several GPUs follow one another (WindowOf).
	Base   = 0x500000000000
	Window = 1 << 40
	// Behind is where no window of any number of GPUs reaches; the process's own program may lie a
	// window further on.
	Behind = Base + roomy*Window
	// Granularity is cuMemCreate's: segments are multiples of it.
	Granularity = cudaabi.MappingGranularity
	// Alignment is the alignment of every allocation.
	Alignment = 512
	// SharedSegment is the size of a segment that is cut up, LargestShared the size of the largest
	// allocation that is cut from one.
	SharedSegment = 32 << 20
	LargestShared = 8 << 20
)

// roomy is for how many GPUs, a power of two, there is room for whole windows: after a fifth window
// the process's own program may lie.
const roomy = 4

// WindowOf is the window size for a number of GPUs, a power of two: 512 GiB from five GPUs on.
func WindowOf(gpus int) uint64 {
	window := uint64(Window)
	for ; gpus > roomy; gpus = (gpus + 1) / 2 {
		window /= 2
	}
	return window
}

// Backing puts memory under addresses.
type Backing interface {
	// Map makes memory of the given size appear at addr. Both are multiples of Granularity.
	Map(addr, bytes uint64) error
	// Unmap undoes a Map of the same address and size.
	Unmap(addr, bytes uint64)
}

// allocation is what Alloc returned; size is what the caller asked for.
type allocation struct {
	size  uint64
	owner uint64 // address of its segment
	kind  ledger.Kind
}

// segment is a mapped part of the window.
type segment struct {
	size   uint64
	shared bool
	kind   ledger.Kind
	away   bool // its memory is the backing's again (away.go)
}

// Heap hands out the memory of a window of addresses.
type Heap struct {
	backing   Backing
	base      uint64 // of the window
	window    uint64 // its bytes
	limit     uint64
	mapped    uint64
	addresses ranges // of the window that belong to no segment
	space     ranges // in shared segments
	segments  tree[segment]
	live      tree[allocation]
	spare     uint64 // address of the shared segment kept although it is empty, 0 for none
	spareSize uint64
	away      int        // segments that are away
	restoring *Restoring // while it is being restored (saved.go)
	gone      func(addr, bytes uint64)
	host      *budget.Budget
	account   *ledger.Account
}

// New returns a heap over [base, base+window) that maps at most limit bytes.
func New(base, window, limit uint64, backing Backing) (*Heap, error) {
	if base == 0 || base%Granularity != 0 || window == 0 || window%Granularity != 0 ||
		base+window < base {
		return nil, fmt.Errorf("device memory at %#x, %#x bytes: %w", base, window, ErrInvalid)
	}
	h := &Heap{backing: backing, base: base, window: window, limit: limit}
	h.addresses.insert(base, window)
	return h, nil
}

// Alloc returns the address of new memory, whose content is undefined. Sizes of 0 are ErrInvalid.
func (h *Heap) Alloc(bytes uint64) (uint64, error) { return h.AllocAs(ledger.Window, bytes) }

// AllocAs is Alloc of memory that counts as the caller says.
func (h *Heap) AllocAs(k ledger.Kind, bytes uint64) (uint64, error) {
	if bytes == 0 {
		return 0, ErrInvalid
	}
	if bytes > LargestShared {
		return h.AllocSegment(k, bytes)
	}
	if h.restoring != nil {
		return h.restoring.claim(k, bytes, true)
	}
	if h.away > 0 {
		return 0, ErrOutOfMemory
	}
	if h.host.Take(hostBytes) != nil {
		return 0, ErrOutOfMemory
	}
	rounded := roundUp(bytes, Alignment)
	addr, ok := h.space.take(rounded)
	if !ok {
		if err := h.addShared(rounded); err != nil {
			h.host.Give(hostBytes)
			return 0, err
		}
		addr, _ = h.space.take(rounded)
	}
	owner := h.segments.floor(key{hi: addr}).key.hi
	if owner == h.spare {
		h.spare, h.spareSize = 0, 0
	}
	h.live.insert(key{hi: addr}, allocation{bytes, owner, k})
	if k != ledger.Window {
		h.account.Move(ledger.Window, k, rounded)
	}
	return addr, nil
}

// AllocSegment is Alloc with a segment that nothing else shares, and that counts as the caller
// says: for memory that the backing gives to another process.
func (h *Heap) AllocSegment(k ledger.Kind, bytes uint64) (uint64, error) {
	if bytes == 0 {
		return 0, ErrInvalid
	}
	if h.restoring != nil {
		return h.restoring.claim(k, bytes, false)
	}
	size := roundUp(bytes, Granularity)
	if size < bytes || h.away > 0 {
		return 0, ErrOutOfMemory
	}
	if h.host.Take(hostBytes) != nil {
		return 0, ErrOutOfMemory
	}
	addr, err := h.addSegment(segment{size: size, kind: k})
	if err != nil {
		h.host.Give(hostBytes)
		return 0, err
	}
	h.live.insert(key{hi: addr}, allocation{bytes, addr, k})
	return addr, nil
}

// addShared maps a shared segment with room for bytes: a full one, or what the limit and the
// backing still allow.
func (h *Heap) addShared(bytes uint64) error {
	size := uint64(SharedSegment)
	least := roundUp(bytes, Granularity)
	for {
		addr, err := h.addSegment(segment{size: size, shared: true, kind: ledger.Window})
		if err == nil {
			h.space.insert(addr, size)
			return nil
		}
		if size == least {
			return err
		}
		size = max(least, roundUp(size/2, Granularity))
	}
}

// addSegment maps a segment, giving up the spare one if need be. It is counted before it is mapped,
// and until after it is unmapped.
func (h *Heap) addSegment(p segment) (uint64, error) {
	if err := h.Charge(p.kind, p.size); err != nil {
		return 0, err
	}
	addr, ok := h.addresses.take(p.size)
	if !ok {
		h.Uncharge(p.kind, p.size)
		return 0, ErrOutOfMemory
	}
	err := h.backing.Map(addr, p.size)
	if err != nil && h.Trim() {
		err = h.backing.Map(addr, p.size)
	}
	if err != nil {
		h.addresses.give(addr, p.size, 0, ^uint64(0))
		h.Uncharge(p.kind, p.size)
		return 0, fmt.Errorf("map %d bytes: %w: %w", p.size, ErrOutOfMemory, err)
	}
	h.segments.insert(key{hi: addr}, p)
	return addr, nil
}

// Free gives back what Alloc or AllocSegment returned.
func (h *Heap) Free(addr uint64) error {
	n := h.live.floor(key{hi: addr})
	if n == nil || n.key.hi != addr {
		return ErrNotAllocated
	}
	a := n.value
	h.live.remove(key{hi: addr})
	h.host.Give(hostBytes)
	p := h.segments.floor(key{hi: a.owner}).value
	if !p.shared {
		h.dropSegment(a.owner, p)
		return nil
	}
	if a.kind != ledger.Window && !p.away {
		h.account.Move(a.kind, ledger.Window, roundUp(a.size, Alignment))
	}
	low, size := h.space.give(addr, roundUp(a.size, Alignment), a.owner, a.owner+p.size)
	switch {
	case low != a.owner || size != p.size:
	case p.away:
		h.space.remove(low, size)
		h.dropSegment(low, p)
	default:
		h.retire(a.owner, p.size)
	}
	return nil
}

// retire keeps an empty shared segment, the larger of two, and gives the other one up.
func (h *Heap) retire(addr, size uint64) {
	if h.spare != 0 && size < h.spareSize {
		h.space.remove(addr, size)
		h.dropSegment(addr, segment{size: size, shared: true, kind: ledger.Window})
		return
	}
	h.Trim()
	h.spare, h.spareSize = addr, size
}

// Trim gives up the empty segment that is kept; it reports whether there was one.
func (h *Heap) Trim() bool {
	if h.spare == 0 {
		return false
	}
	h.space.remove(h.spare, h.spareSize)
	h.dropSegment(h.spare, segment{size: h.spareSize, shared: true, kind: ledger.Window})
	h.spare, h.spareSize = 0, 0
	return true
}

// hostBytes is what an allocation counts for of the host's memory: its nodes, and what the caller
// keeps about it.
const hostBytes = 512

// Meter makes all later allocations count in the host's memory.
func (h *Heap) Meter(host *budget.Budget) { h.host = host }

// Count makes an account count all that the heap maps from now on, and what else is charged.
func (h *Heap) Count(a *ledger.Account) { h.account = a }

// Account is what the heap counts for.
func (h *Heap) Account() *ledger.Account { return h.account }

// Watch makes the heap call f before it unmaps a segment, except in Close.
func (h *Heap) Watch(f func(addr, bytes uint64)) { h.gone = f }

func (h *Heap) dropSegment(addr uint64, p segment) {
	if h.gone != nil {
		h.gone(addr, p.size)
	}
	if p.away {
		h.drop(addr, p)
		return
	}
	h.backing.Unmap(addr, p.size)
	h.segments.remove(key{hi: addr})
	h.addresses.give(addr, p.size, 0, ^uint64(0))
	h.Uncharge(p.kind, p.size)
}

// Find returns the allocation that holds addr.
func (h *Heap) Find(addr uint64) (base, size uint64, ok bool) {
	n := h.live.floor(key{hi: addr})
	if n == nil || addr-n.key.hi >= n.value.size {
		return 0, 0, false
	}
	return n.key.hi, n.value.size, true
}

// Begins says whether an allocation begins at addr.
func (h *Heap) Begins(addr uint64) bool {
	base, _, ok := h.Find(addr)
	return ok && base == addr
}

// Used is the memory in use: the segments that hold allocations.
func (h *Heap) Used() uint64 { return h.mapped - h.spareSize }

// Spare is the memory of the empty segment that is kept.
func (h *Heap) Spare() uint64 { return h.spareSize }

// Limit is the bound on what is mapped.
func (h *Heap) Limit() uint64 { return h.limit }

// SetLimit changes the limit. What is mapped already stays, even above it.
func (h *Heap) SetLimit(limit uint64) {
	h.limit = limit
	if h.mapped > limit {
		h.Trim()
	}
}

// Len is the number of allocations.
func (h *Heap) Len() int { return h.live.size }

// Close unmaps everything. The heap must not be used after it.
func (h *Heap) Close() {
	h.live.root.each(func(n *node[allocation]) {
		if p := h.segments.floor(key{hi: n.value.owner}).value; p.shared && !p.away {
			h.account.Move(n.value.kind, ledger.Window, roundUp(n.value.size, Alignment))
		}
	})
	h.segments.root.each(func(n *node[segment]) {
		if n.value.away {
			return
		}
		h.backing.Unmap(n.key.hi, n.value.size)
		h.account.Give(n.value.kind, n.value.size)
	})
	h.host.Give(uint64(h.live.size) * hostBytes)
	*h = Heap{backing: h.backing, account: h.account}
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }
