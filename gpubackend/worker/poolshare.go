// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"crypto/rand"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// poolShares is memory of pools that processes share. A pool goes to another process as a descriptor, and is a token there: no
// memory is allocated from it. Memory goes by a name, as all that is offered, in whole pieces of the driver's; a piece has one
// name, is mapped once by each process, and counts there once.
type poolShares struct {
	offered  map[uint64]*offeredPiece  // by address
	mapped   map[[16]byte]*mappedPiece // of others, by name
	pointers map[uint64]*mappedPiece   // what the guest has imported, by address
}

// offeredPiece is offered for as long as blocks that were exported are in it.
type offeredPiece struct {
	offer
	base   uint64
	blocks int
}

// mappedPiece is mapped for as long as pointers into it are imported.
type mappedPiece struct {
	name     [16]byte
	address  uint64
	bytes    uint64
	context  uint64
	pointers int
}

// maxOfferedPieces bounds the sockets and goroutines that a guest can make a worker have.
const maxOfferedPieces = 1 << 10

// handlePosixFile is CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
const handlePosixFile = 1

// shareable gives a pool its token.
func (p *pool) shareable() {
	var b [8]byte
	for p.token == 0 {
		_, _ = rand.Read(b[:])
		p.token = binary.LittleEndian.Uint64(b[:])
	}
}

// runPoolExport offers a pool.
func (w *Worker) runPoolExport(c *call.Call, a command.MemPoolExportToShareableHandle) gpubackend.Result {
	p, result := w.findPool(a.Pool)
	if result != gpubackend.Success || p.token == 0 || p.imported {
		return gpubackend.InvalidValue
	}
	if p.number == 0 {
		if p.number = w.offerNumber(); p.number == 0 {
			return gpubackend.OutOfMemory
		}
	}
	o := handover.Object{Kind: handover.ObjectPool, Number: p.number, Device: p.device, Token: p.token}
	if result := w.offerObject(o, -1); result != gpubackend.Success {
		return result
	}
	c.Put(command.MemPoolExportToShareableHandleAnswer{Number: uint64(p.number)})
	return gpubackend.Success
}

// runPoolImport takes a pool that the device process has handed over.
func (w *Worker) runPoolImport(c *call.Call, a command.MemPoolImportFromShareableHandle) gpubackend.Result {
	i, result := w.imports.take(a.Number, handover.ObjectPool)
	if result != gpubackend.Success {
		return result
	}
	i.close()
	if i.Token == 0 {
		return gpubackend.InvalidValue
	}
	h := w.newPool(i.Device, 0)
	if h == 0 {
		return gpubackend.OutOfMemory
	}
	p, _ := w.findPool(h)
	p.imported, p.token = true, i.Token
	c.Put(command.MemPoolImportFromShareableHandleAnswer{Pool: h, Device: i.Device})
	return gpubackend.Success
}

// runPoolExportPointer offers the piece that a block of a shareable pool is in.
func (w *Worker) runPoolExportPointer(c *call.Call, a command.MemPoolExportPointer) gpubackend.Result {
	address := a.Address
	b := w.pools.live[address]
	if b == nil || b.pool.token == 0 {
		return gpubackend.InvalidValue
	}
	if result := w.contexts.Set(b.context, true); result != gpubackend.Success {
		return result
	}
	x := b.exported
	if x == nil {
		var result gpubackend.Result
		if x, result = w.offerPiece(b); result != gpubackend.Success {
			return result
		}
	}
	c.Put(command.MemPoolExportPointerAnswer{Token: b.pool.token, Name: x.token, Offset: address - x.base})
	return gpubackend.Success
}

// offerPiece adds a block to the offer of its piece.
func (w *Worker) offerPiece(b *block) (*offeredPiece, gpubackend.Result) {
	shared, fd, result := w.driver.Share(b.address)
	if result != gpubackend.Success {
		return nil, result
	}
	s, base := &w.pools.shares, b.address-shared.Offset
	x := s.offered[base]
	if x != nil {
		unix.Close(fd)
	} else {
		if len(s.offered) >= maxOfferedPieces {
			unix.Close(fd)
			return nil, gpubackend.OutOfMemory
		}
		x = &offeredPiece{offer: offer{text: describePiece(shared), fd: fd}, base: base}
		if err := x.open(offersMemory); err != nil {
			w.log.WithError(err).Warn("share memory of a pool")
			return nil, gpubackend.OutOfMemory
		}
		if s.offered == nil {
			s.offered = map[uint64]*offeredPiece{}
		}
		s.offered[base] = x
	}
	x.blocks++
	b.exported = x
	return x, gpubackend.Success
}

// withdraw takes a block that goes back to the driver out of the offer of its piece.
func (s *poolShares) withdraw(b *block) {
	x := b.exported
	if x == nil {
		return
	}
	b.exported = nil
	if x.blocks--; x.blocks == 0 {
		_ = x.listener.Close()
		delete(s.offered, x.base)
	}
}

// runPoolImportPointer maps memory of an imported pool.
func (w *Worker) runPoolImportPointer(c *call.Call, a command.MemPoolImportPointer) gpubackend.Result {
	p, result := w.findPool(a.Pool)
	if result != gpubackend.Success || !p.imported || p.token != a.Token {
		return gpubackend.InvalidValue
	}
	w.sweepPieces()
	x, result := w.mapPiece(a.Name)
	if result != gpubackend.Success {
		return result
	}
	s, offset := &w.pools.shares, a.Offset
	switch {
	case offset >= x.bytes:
		result = gpubackend.InvalidValue
	case s.pointers[x.address+offset] != nil:
		result = gpubackend.AlreadyMapped
	}
	if result != gpubackend.Success {
		w.sweepPieces()
		return result
	}
	if s.pointers == nil {
		s.pointers = map[uint64]*mappedPiece{}
	}
	s.pointers[x.address+offset] = x
	x.pointers++
	c.Put(command.MemPoolImportPointerAnswer{Address: x.address + offset})
	return gpubackend.Success
}

// mapPiece returns the piece that has a name, mapped.
func (w *Worker) mapPiece(name [16]byte) (*mappedPiece, gpubackend.Result) {
	s := &w.pools.shares
	if x := s.mapped[name]; x != nil {
		return x, gpubackend.Success
	}
	for _, x := range s.offered {
		if x.token == name {
			return nil, gpubackend.InvalidContext // as for memory of cuIpcGetMemHandle: between processes
		}
	}
	shared, fd, err := receivePiece(name)
	if err != nil {
		w.log.WithError(err).Debug("get memory of another process's pool")
		return nil, gpubackend.InvalidValue
	}
	defer unix.Close(fd)
	address, result := w.driver.MapShared(shared, fd)
	if result == gpubackend.OutOfMemory && w.pools.empty(w) {
		address, result = w.driver.MapShared(shared, fd)
	}
	if result != gpubackend.Success {
		return nil, result
	}
	x := &mappedPiece{name: name, address: address, bytes: shared.Bytes, context: w.contexts.HomeOfCurrent()}
	if s.mapped == nil {
		s.mapped = map[[16]byte]*mappedPiece{}
	}
	s.mapped[name] = x
	return x, gpubackend.Success
}

// takePointer ends the import of an address, which is in use still, and returns its piece; nil if there is none such.
func (s *poolShares) takePointer(address uint64) *mappedPiece {
	x := s.pointers[address]
	delete(s.pointers, address)
	return x
}

// dropPointer gives up a pointer that is in no use any more, and with the last one the piece.
func (w *Worker) dropPointer(x *mappedPiece) gpubackend.Result {
	if x.pointers--; x.pointers > 0 {
		return gpubackend.Success
	}
	delete(w.pools.shares.mapped, x.name)
	return w.driver.UnmapShared(x.address)
}

// sweepPieces unmaps pieces that nothing points into: those of a context that has ended, where there was none to do it in, and
// of an import that failed.
func (w *Worker) sweepPieces() {
	for name, x := range w.pools.shares.mapped {
		if x.pointers == 0 && w.driver.UnmapShared(x.address) == gpubackend.Success {
			delete(w.pools.shares.mapped, name)
		}
	}
}

// forget drops the pointers of a context that is gone.
func (s *poolShares) forget(context uint64) {
	for address, x := range s.pointers {
		if x.context == context {
			delete(s.pointers, address)
			x.pointers--
		}
	}
}
