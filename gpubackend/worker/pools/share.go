// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"crypto/rand"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
)

// shares is memory of pools that processes share. Memory is offered under a name, in whole segments
// of the driver; a segment has one name, is mapped once by each process, and counts there once.
type shares struct {
	offered  map[uint64]*offeredSegment       // by address
	mapped   map[offers.Secret]*mappedSegment // of others, by name
	pointers map[uint64]*mappedSegment        // what the guest has imported, by address
}

// offeredSegment is offered for as long as allocations that were exported are in it.
type offeredSegment struct {
	offer       *offers.Offer
	base        uint64
	allocations int
}

// mappedSegment is mapped for as long as pointers into it are imported.
type mappedSegment struct {
	name     offers.Secret
	address  uint64
	bytes    uint64
	context  uint64
	pointers int
}

// maxOfferedSegments bounds what a guest can make a worker offer.
const maxOfferedSegments = 1 << 10

// HandlePosixFile is CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
const HandlePosixFile = 1

// shareable makes a pool shareable: it gets a token.
func (p *pool) shareable() {
	var b [8]byte
	for p.token == 0 {
		_, _ = rand.Read(b[:])
		p.token = binary.LittleEndian.Uint64(b[:])
	}
}

// export offers a pool.
func (s *Pools) export(c *call.Call, a command.MemPoolExportToShareableHandle) gpubackend.Result {
	p, result := s.findPool(a.Pool)
	if result != gpubackend.Success || p.token == 0 || p.imported {
		return gpubackend.InvalidValue
	}
	if p.number == 0 {
		if p.number = s.Exports.Number(); p.number == 0 {
			return gpubackend.OutOfMemory
		}
	}
	if result := s.tell(p); result != gpubackend.Success {
		return result
	}
	c.Put(command.MemPoolExportToShareableHandleAnswer{Number: uint64(p.number)})
	return gpubackend.Success
}

// tell offers an exported pool to the device process, under the number that it has.
func (s *Pools) tell(p *pool) gpubackend.Result {
	o := handover.Object{Kind: handover.ObjectPool, Number: p.number, Token: p.token}
	return s.Exports.Offer(o, p.device, -1)
}

// open takes a pool that the device process has handed over.
func (s *Pools) open(c *call.Call, a command.MemPoolImportFromShareableHandle) gpubackend.Result {
	i, result := s.Exports.Take(a.Number, handover.ObjectPool)
	if result != gpubackend.Success {
		return result
	}
	i.Close()
	if i.Token == 0 {
		return gpubackend.InvalidValue
	}
	h := s.newPool(i.Device, 0)
	if h == 0 {
		return gpubackend.OutOfMemory
	}
	p, _ := s.findPool(h)
	p.imported, p.token = true, i.Token
	c.Put(command.MemPoolImportFromShareableHandleAnswer{Pool: h, Device: i.Device})
	return gpubackend.Success
}

// exportPointer offers the segment that an allocation of a shareable pool is in.
func (s *Pools) exportPointer(c *call.Call, a command.MemPoolExportPointer) gpubackend.Result {
	address := a.Address
	b := s.live[address]
	if b == nil || b.pool.token == 0 {
		return gpubackend.InvalidValue
	}
	if result := s.Contexts.Set(b.context, true); result != gpubackend.Success {
		return result
	}
	x := b.exported
	if x == nil {
		var result gpubackend.Result
		if x, result = s.offerSegment(b, s.Offers.OpenMemory); result != gpubackend.Success {
			return result
		}
	}
	c.Put(command.MemPoolExportPointerAnswer{Token: b.pool.token, Name: x.offer.Secret(),
		Offset: address - x.base})
	return gpubackend.Success
}

// offerSegment adds an allocation to the offer of its segment, which open opens if there is none.
func (s *Pools) offerSegment(
	b *allocation, open func(s gpubackend.Shared, fd int) (*offers.Offer, error),
) (*offeredSegment, gpubackend.Result) {
	shared, fd, result := s.Driver.Share(b.address)
	if result != gpubackend.Success {
		return nil, result
	}
	offered, base := s.shares.offered, b.address-shared.Offset
	x := offered[base]
	switch {
	case x != nil:
		unix.Close(fd)
	case len(offered) >= maxOfferedSegments:
		unix.Close(fd)
		return nil, gpubackend.OutOfMemory
	default:
		offer, err := open(shared, fd)
		if err != nil {
			s.Log.WithError(err).Warn("share memory of a pool")
			return nil, gpubackend.OutOfMemory
		}
		x = &offeredSegment{offer: offer, base: base}
		offered[base] = x
	}
	x.allocations++
	b.exported = x
	return x, gpubackend.Success
}

// withdraw takes an allocation that goes back to the driver out of the offer of its segment.
func (s *shares) withdraw(b *allocation) {
	x := b.exported
	if x == nil {
		return
	}
	b.exported = nil
	if x.allocations--; x.allocations == 0 {
		s.end(x)
	}
}

// end ends the offer of a segment.
func (s *shares) end(x *offeredSegment) {
	x.offer.Close()
	delete(s.offered, x.base)
}

// importPointer maps memory of an imported pool.
func (s *Pools) importPointer(c *call.Call, a command.MemPoolImportPointer) gpubackend.Result {
	p, result := s.findPool(a.Pool)
	if result != gpubackend.Success || !p.imported || p.token != a.Token {
		return gpubackend.InvalidValue
	}
	s.sweepSegments()
	x, result := s.mapSegment(a.Name)
	if result != gpubackend.Success {
		return result
	}
	pointers, address := s.shares.pointers, x.address+a.Offset
	switch {
	case a.Offset >= x.bytes:
		result = gpubackend.InvalidValue
	case pointers[address] != nil:
		result = gpubackend.AlreadyMapped
	}
	if result != gpubackend.Success {
		s.sweepSegments()
		return result
	}
	pointers[address] = x
	x.pointers++
	c.Put(command.MemPoolImportPointerAnswer{Address: address})
	return gpubackend.Success
}

// mapSegment maps the segment with that name, and returns it.
func (s *Pools) mapSegment(name offers.Secret) (*mappedSegment, gpubackend.Result) {
	if x := s.shares.mapped[name]; x != nil {
		return x, gpubackend.Success
	}
	for _, x := range s.shares.offered {
		if x.offer != nil && x.offer.Secret() == name {
			// as for memory of cuIpcGetMemHandle: only between processes
			return nil, gpubackend.InvalidContext
		}
	}
	shared, fd, err := s.Offers.ReceiveMemory(name)
	if err != nil {
		s.Log.WithError(err).Debug("get memory of another process's pool")
		return nil, gpubackend.InvalidValue
	}
	defer unix.Close(fd)
	address, result := s.Driver.MapShared(shared, fd)
	if result == gpubackend.OutOfMemory && s.Empty() {
		address, result = s.Driver.MapShared(shared, fd)
	}
	if result != gpubackend.Success {
		return nil, result
	}
	x := &mappedSegment{name: name, address: address, bytes: shared.Bytes,
		context: s.Contexts.HomeOfCurrent()}
	s.shares.mapped[name] = x
	return x, gpubackend.Success
}

// takePointer ends the import of an address, which may still be in use, and returns its segment;
// nil if it isn't imported.
func (s *shares) takePointer(address uint64) *mappedSegment {
	x := s.pointers[address]
	delete(s.pointers, address)
	return x
}

// dropPointer gives up a pointer that isn't used any more, and with the last one its segment.
func (s *Pools) dropPointer(x *mappedSegment) gpubackend.Result {
	if x.pointers--; x.pointers > 0 {
		return gpubackend.Success
	}
	delete(s.shares.mapped, x.name)
	return s.Driver.UnmapShared(x.address)
}

// sweepSegments unmaps segments that nothing points into: those of a context that has ended, for
// which no context was current, and of a failed import.
func (s *Pools) sweepSegments() {
	for name, x := range s.shares.mapped {
		if x.pointers == 0 && s.Driver.UnmapShared(x.address) == gpubackend.Success {
			delete(s.shares.mapped, name)
		}
	}
}

// forget drops the pointers of a context that is gone.
func (s *shares) forget(context uint64) {
	for address, x := range s.pointers {
		if x.context == context {
			delete(s.pointers, address)
			x.pointers--
		}
	}
}

// Close ends all offers.
func (s *Pools) Close() {
	for _, x := range s.shares.offered {
		s.shares.end(x)
	}
}

// Shares says whether a segment in a range is offered, or another process's.
func (s *Pools) Shares(address, bytes uint64) bool {
	for at := range s.shares.offered {
		if at-address < bytes {
			return true
		}
	}
	for _, x := range s.shares.mapped {
		if x.address-address < bytes {
			return true
		}
	}
	return false
}

// Segments is how many segments are offered and mapped, and how many pointers into these there are.
func (s *Pools) Segments() (offered, mapped, pointers int) {
	return len(s.shares.offered), len(s.shares.mapped), len(s.shares.pointers)
}
