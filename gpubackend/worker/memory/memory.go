// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"
	"sort"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/exports"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
)

// Addresses that a guest may reserve: no address space layout of Linux or of the driver uses them,
// and they don't touch the window of device memory.
const (
	ReserveBase = 0x400000000000
	ReserveEnd  = 0x500000000000
)

// Driver is what Memory uses of gpubackend.Driver.
type Driver interface {
	Reserve(addr, bytes uint64) gpubackend.Result
	Unreserve(addr, bytes uint64) gpubackend.Result
	CreateMemory(bytes, device, compression uint64) (gpubackend.Memory, gpubackend.Result)
	TakeMemory(m gpubackend.CreatedMemory) gpubackend.Result
	ReleaseMemory(m gpubackend.Memory) gpubackend.Result
	MapMemory(addr, bytes uint64, m gpubackend.Memory) gpubackend.Result
	UnmapMemory(addr, bytes uint64) gpubackend.Result
	Protect(addr, bytes, device, access uint64) gpubackend.Result
	ExportMemory(m gpubackend.Memory) (fd int, result gpubackend.Result)
	ImportMemory(fd int, bytes, device uint64) (gpubackend.Memory, gpubackend.Result)
}

// Config is what a Memory needs.
type Config struct {
	Driver  Driver
	Objects *object.Table
	Places  *addresses.Quota
	Exports exports.Interface
	Offers  *offers.Offers // of this process, and the way to those of others
	Log     *logrus.Entry
	// WhenIdle makes a call be answered with what then returns, when the work of its context is
	// done.
	WhenIdle func(c *call.Call, then func() (uint64, gpubackend.Result)) gpubackend.Result
	// MakeRoom makes others give back memory that they can do without, and says whether there was
	// any.
	MakeRoom func() bool
	// Ending is called before the guest loses access to a range: nobody else may access it after
	// that.
	Ending func(address, bytes uint64)
}

// Memory is the guest's virtual memory management.
type Memory struct {
	Config
	reserved []addresses.Range  // sorted
	mapped   []mapped           // sorted
	memory   map[uint64]*memory // by handle; imported memory may have several
	exchange exchange
}

// New returns a Memory with nothing in it.
func New(c Config) *Memory {
	return &Memory{
		Config: c, memory: map[uint64]*memory{},
		exchange: exchange{numbers: map[uint32]*memory{}, ids: map[uint64]*memory{},
			tokens: map[uint64]*memory{}},
	}
}

// Handlers are the commands that a Memory executes.
func (m *Memory) Handlers() call.Handlers {
	return call.Handlers{
		gpubackend.OpMemAddressReserve: call.Decoded(command.DecodeMemAddressReserve,
			m.reserve),
		gpubackend.OpMemAddressFree: call.Decoded(command.DecodeMemAddressFree,
			m.unreserve),
		gpubackend.OpMemCreate: call.Decoded(command.DecodeMemCreate, m.create),
		gpubackend.OpMemRelease: call.Decoded(command.DecodeMemRelease,
			m.release),
		gpubackend.OpMemMap: call.Decoded(command.DecodeMemMap, m.put),
		gpubackend.OpMemUnmap: call.Decoded(command.DecodeMemUnmap,
			m.unmapWhenIdle),
		gpubackend.OpMemSetAccess: call.Decoded(command.DecodeMemSetAccess,
			m.setAccess),
		gpubackend.OpMemExportToShareableHandle: call.Decoded(
			command.DecodeMemExportToShareableHandle, m.export),
		gpubackend.OpMemImportFromShareableHandle: call.Decoded(
			command.DecodeMemImportFromShareableHandle, m.open),
	}
}

// Mapping is memory at an address.
type Mapping struct {
	addresses.Range
	Native gpubackend.Memory
	Access uint64 // the most that a device has
}

// At returns the mapping that holds an address.
func (m *Memory) At(address uint64) (x Mapping, ok bool) {
	if x := m.at(address); x != nil {
		return Mapping{
			x.Range, gpubackend.Memory(x.memory.native), slices.Max(x.access[:]),
		}, true
	}
	return Mapping{}, false
}

// mapped is memory at an address.
type mapped struct {
	addresses.Range
	memory *memory
	access [ledger.GPUs]uint64 // by device
}

// memory is device memory without an address. It lasts as long as its handles and its mappings.
type memory struct {
	native      uint64
	bytes       uint64
	device      uint64
	compression uint64 // that was asked for
	uses        int
	number      uint32 // by which it is exported, 0 if it isn't
	id          uint64 // by which it was imported, 0 if it wasn't
	token       uint64 // by which others recognise it, 0 if they can't have it
	imported    bool   // it is another process's
	offer       *offers.Offer
}

// possible says whether memory of that size may be.
func (x *memory) possible() bool {
	return x.bytes != 0 && x.bytes%gpubackend.Granularity == 0
}

// aligned says whether the guest may name a range.
func aligned(base, bytes uint64) bool {
	return base%gpubackend.Granularity == 0 && bytes%gpubackend.Granularity == 0 && bytes != 0 &&
		base >= ReserveBase && base < ReserveEnd && bytes <= ReserveEnd-base
}

// firstReserved and firstMapped are the positions of the first range that ends after addr.
func (m *Memory) firstReserved(addr uint64) int {
	return sort.Search(len(m.reserved), func(i int) bool { return m.reserved[i].End() > addr })
}

func (m *Memory) firstMapped(addr uint64) int {
	return sort.Search(len(m.mapped), func(i int) bool { return m.mapped[i].End() > addr })
}

// at is the mapping that holds an address, or nil.
func (m *Memory) at(addr uint64) *mapped {
	if i := m.firstMapped(addr); i < len(m.mapped) && m.mapped[i].Base <= addr {
		return &m.mapped[i]
	}
	return nil
}

// reserve sets aside addresses that the guest names.
func (m *Memory) reserve(c *call.Call, a command.MemAddressReserve) gpubackend.Result {
	return m.reserveRange(addresses.Of(a.Address, a.Bytes))
}

// reserveRange sets addresses aside.
func (m *Memory) reserveRange(r addresses.Range) gpubackend.Result {
	base, bytes := r.Base, r.Bytes
	if !aligned(base, bytes) {
		return gpubackend.InvalidValue
	}
	i := m.firstReserved(base)
	if i < len(m.reserved) && m.reserved[i].Base < base+bytes {
		return gpubackend.InvalidValue
	}
	if !m.Places.Take(addresses.OfReserved) {
		return gpubackend.OutOfMemory
	}
	result := m.Driver.Reserve(base, bytes)
	if result != gpubackend.Success {
		m.Places.Give(addresses.OfReserved)
		return result
	}
	m.reserved = slices.Insert(m.reserved, i, r)
	return result
}

// unreserve gives back a whole reservation.
func (m *Memory) unreserve(c *call.Call, a command.MemAddressFree) gpubackend.Result {
	base, bytes := a.Address, a.Bytes
	i := m.firstReserved(base)
	if i == len(m.reserved) || m.reserved[i] != (addresses.Of(base, bytes)) {
		return gpubackend.InvalidValue
	}
	if k := m.firstMapped(base); k < len(m.mapped) && m.mapped[k].Base < base+bytes {
		return gpubackend.InvalidValue
	}
	result := m.Driver.Unreserve(base, bytes)
	if result == gpubackend.Success {
		m.reserved = slices.Delete(m.reserved, i, i+1)
		m.Places.Give(addresses.OfReserved)
	}
	return result
}

// create makes memory.
func (m *Memory) create(c *call.Call, a command.MemCreate) gpubackend.Result {
	bytes, device, compression := a.Bytes, a.Device, a.Compression
	x := &memory{bytes: bytes, device: device, compression: compression, uses: 1}
	if !x.possible() {
		return gpubackend.InvalidValue
	}
	native, result := m.Driver.CreateMemory(bytes, device, compression)
	if result == gpubackend.OutOfMemory && m.MakeRoom() {
		native, result = m.Driver.CreateMemory(bytes, device, compression)
	}
	if result != gpubackend.Success {
		return result
	}
	x.native = uint64(native)
	handle := m.add(x)
	if handle == 0 {
		m.Driver.ReleaseMemory(native)
		return gpubackend.OutOfMemory
	}
	c.Put(command.MemCreateAnswer{Memory: handle})
	return gpubackend.Success
}

// add gives memory a handle, which is one of its uses; 0 when there is no room.
func (m *Memory) add(x *memory) uint64 {
	if !m.Objects.Room(object.Memory) {
		return 0
	}
	handle := m.Objects.Add(object.Memory, x.native, 0)
	m.memory[handle] = x
	return handle
}

// release gives up a handle; mappings keep the memory.
func (m *Memory) release(c *call.Call, a command.MemRelease) gpubackend.Result {
	x := m.memory[a.Memory]
	if x == nil {
		return gpubackend.InvalidValue
	}
	delete(m.memory, a.Memory)
	m.Objects.Remove(a.Memory)
	return m.unuse(x)
}

func (m *Memory) unuse(x *memory) gpubackend.Result {
	if x.uses--; x.uses > 0 {
		return gpubackend.Success
	}
	m.exchange.forget(x)
	m.Exports.Withdraw(handover.ObjectMemory, x.number)
	return m.Driver.ReleaseMemory(gpubackend.Memory(x.native))
}

// put puts memory at reserved addresses.
func (m *Memory) put(c *call.Call, a command.MemMap) gpubackend.Result {
	x := m.memory[a.Memory]
	if x == nil || a.Bytes != x.bytes {
		return gpubackend.InvalidValue
	}
	return m.mapAt(x, a.Address)
}

// mapAt puts all of memory at reserved addresses.
func (m *Memory) mapAt(x *memory, base uint64) gpubackend.Result {
	bytes := x.bytes
	if !aligned(base, bytes) {
		return gpubackend.InvalidValue
	}
	i := m.firstReserved(base)
	if i == len(m.reserved) || m.reserved[i].Base > base || m.reserved[i].End() < base+bytes {
		return gpubackend.InvalidValue
	}
	k := m.firstMapped(base)
	if k < len(m.mapped) && m.mapped[k].Base < base+bytes {
		return gpubackend.InvalidValue
	}
	if !m.Places.Take(addresses.OfMapped) {
		return gpubackend.OutOfMemory
	}
	result := m.Driver.MapMemory(base, bytes, gpubackend.Memory(x.native))
	if result != gpubackend.Success {
		m.Places.Give(addresses.OfMapped)
		return result
	}
	x.uses++
	m.mapped = slices.Insert(m.mapped, k,
		mapped{Range: addresses.Of(base, bytes), memory: x})
	return result
}

// unmapWhenIdle unmaps whole mappings, when nothing uses them.
func (m *Memory) unmapWhenIdle(c *call.Call, a command.MemUnmap) gpubackend.Result {
	base, bytes := a.Address, a.Bytes
	return m.WhenIdle(c, func() (uint64, gpubackend.Result) { return 0, m.unmap(base, bytes) })
}

func (m *Memory) unmap(base, bytes uint64) gpubackend.Result {
	from, to, ok := m.whole(base, bytes)
	if !ok {
		return gpubackend.InvalidValue
	}
	for _, x := range m.mapped[from:to] {
		m.Ending(x.Base, x.Bytes)
		if result := m.Driver.UnmapMemory(x.Base, x.Bytes); result != gpubackend.Success {
			return result
		}
		m.unuse(x.memory)
	}
	m.mapped = slices.Delete(m.mapped, from, to)
	m.Places.Give(addresses.OfMapped * (to - from))
	return gpubackend.Success
}

// whole finds the mappings of which a range consists, without a gap.
func (m *Memory) whole(base, bytes uint64) (from, to int, ok bool) {
	if !aligned(base, bytes) {
		return 0, 0, false
	}
	from = m.firstMapped(base)
	to = from
	for at := base; at < base+bytes; to++ {
		if to == len(m.mapped) || m.mapped[to].Base != at || m.mapped[to].End() > base+bytes {
			return 0, 0, false
		}
		at = m.mapped[to].End()
	}
	return from, to, true
}

// setAccess says how a device may access mappings. To take access away it waits for the work that
// may use it.
func (m *Memory) setAccess(c *call.Call, a command.MemSetAccess) gpubackend.Result {
	base, bytes, device, access := a.Address, a.Bytes, a.Device, a.Access
	if device >= ledger.GPUs {
		return gpubackend.InvalidDevice
	}
	from, to, ok := m.whole(base, bytes)
	if !ok {
		return gpubackend.InvalidValue
	}
	for _, x := range m.mapped[from:to] {
		if x.access[device] > access {
			return m.WhenIdle(c,
				func() (uint64, gpubackend.Result) {
					return 0, m.protect(base, bytes, device, access)
				})
		}
	}
	return m.protect(base, bytes, device, access)
}

func (m *Memory) protect(base, bytes, device, access uint64) gpubackend.Result {
	from, to, ok := m.whole(base, bytes)
	if !ok {
		return gpubackend.InvalidValue
	}
	for i := from; i < to; i++ {
		x := &m.mapped[i]
		if x.access[device] == access {
			continue
		}
		m.Ending(x.Base, x.Bytes)
		if result := m.Driver.Protect(x.Base, x.Bytes, device,
			access); result != gpubackend.Success {
			return result
		}
		x.access[device] = access
	}
	return gpubackend.Success
}
