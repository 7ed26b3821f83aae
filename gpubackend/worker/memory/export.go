// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/exports"
)

// exchange knows the memory that was exported or imported, so that memory that comes back to its
// own process, or comes twice, is recognised and counts once.
type exchange struct {
	numbers map[uint32]*memory // exported, by this process's number
	ids     map[uint64]*memory // imported, by the device process's
	tokens  map[uint64]*memory // of both, by their tokens
	offered int
}

// maxOffered bounds what a guest can make a worker offer.
const maxOffered = 1 << 10

// MaxHandles bounds the handles that a guest can have of memory that counts once.
const MaxHandles = 1 << 18

// export offers memory.
func (m *Memory) export(c *call.Call, a command.MemExportToShareableHandle) gpubackend.Result {
	x := m.memory[a.Memory]
	if x == nil {
		return gpubackend.InvalidValue
	}
	s := &m.exchange
	if x.number == 0 {
		if x.number = m.Exports.Number(); x.number == 0 {
			return gpubackend.OutOfMemory
		}
		s.numbers[x.number] = x
	}
	if result := m.tell(x); result != gpubackend.Success {
		return result
	}
	c.Put(command.MemExportToShareableHandleAnswer{Number: uint64(x.number)})
	return gpubackend.Success
}

// tell offers exported memory to the device process, under the number that it has.
func (m *Memory) tell(x *memory) gpubackend.Result {
	fd, result := m.Driver.ExportMemory(gpubackend.Memory(x.native))
	if result != gpubackend.Success {
		return result
	}
	defer unix.Close(fd)
	if result := m.offer(x, fd); result != gpubackend.Success {
		return result
	}
	o := handover.Object{Kind: handover.ObjectMemory, Number: x.number, Bytes: x.bytes,
		Token: x.token}
	return m.Exports.Offer(o, x.device, fd)
}

// OfferAgain tells the device process of all that was exported before the program went on from a
// record: descriptors in the guest may stand for it.
func (m *Memory) OfferAgain() error {
	for _, x := range m.exchange.numbers {
		if result := m.tell(x); result != gpubackend.Success {
			return fmt.Errorf("offer %d bytes without an address again: %w", x.bytes, result.Err())
		}
	}
	return nil
}

// offer offers memory of this process, which is a file, once, as long as it is there: those that
// have it find it again when all go on from a record.
func (m *Memory) offer(x *memory, fd int) gpubackend.Result {
	if x.token != 0 {
		return gpubackend.Success
	}
	if m.exchange.offered >= maxOffered {
		return gpubackend.OutOfMemory
	}
	var b [8]byte
	for m.exchange.tokens[x.token] != nil || x.token == 0 {
		_, _ = rand.Read(b[:])
		x.token = binary.LittleEndian.Uint64(b[:])
	}
	if err := m.openOffer(x, fd); err != nil {
		x.token = 0
		m.Log.WithError(err).Warn("share memory without an address")
		return gpubackend.OutOfMemory
	}
	return gpubackend.Success
}

// openOffer offers memory under the token that it has.
func (m *Memory) openOffer(x *memory, fd int) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		x.offer, err = m.Offers.OpenCreated(x.token, x.bytes, own)
	}
	if err == nil {
		m.exchange.tokens[x.token] = x
		m.exchange.offered++
	}
	return err
}

// Close ends all offers.
func (m *Memory) Close() {
	for _, x := range m.exchange.tokens {
		m.exchange.endOffer(x)
	}
}

// endOffer ends the offer of memory, if it is this process's.
func (s *exchange) endOffer(x *memory) {
	if x.offer != nil {
		x.offer.Close()
		x.offer = nil
		s.offered--
	}
}

// open opens memory that the device process has handed over.
func (m *Memory) open(c *call.Call, a command.MemImportFromShareableHandle) gpubackend.Result {
	i, result := m.Exports.Take(a.Number, handover.ObjectMemory)
	if result != gpubackend.Success {
		return result
	}
	defer i.Close()
	if m.Objects.Count(object.Memory) >= MaxHandles {
		return gpubackend.OutOfMemory
	}
	x, result := m.imported(&i)
	if result != gpubackend.Success {
		return result
	}
	handle := m.add(x)
	if handle == 0 {
		m.unuse(x)
		return gpubackend.OutOfMemory
	}
	c.Put(command.MemImportFromShareableHandleAnswer{Memory: handle, Bytes: x.bytes,
		Device: x.device})
	return gpubackend.Success
}

// imported returns the memory with one more use: the memory that is here already, or that of the
// file.
func (m *Memory) imported(i *exports.Imported) (*memory, gpubackend.Result) {
	s := &m.exchange
	x := s.ids[i.ID]
	if i.Own {
		x = s.numbers[i.Number]
	}
	if x == nil && i.Token != 0 { // it was known by another number before it went on from a record
		x = s.tokens[i.Token]
	}
	if x != nil {
		x.uses++
		return x, gpubackend.Success
	}
	if i.File < 0 || i.Bytes == 0 || i.Bytes%gpubackend.Granularity != 0 {
		return nil, gpubackend.InvalidValue
	}
	native, result := m.Driver.ImportMemory(i.File, i.Bytes, i.Device)
	if result == gpubackend.OutOfMemory && m.MakeRoom() {
		native, result = m.Driver.ImportMemory(i.File, i.Bytes, i.Device)
	}
	if result != gpubackend.Success {
		return nil, result
	}
	x = &memory{native: uint64(native), bytes: i.Bytes, device: i.Device, id: i.ID, uses: 1,
		token: i.Token, imported: true}
	if x.id != 0 { // else it has waited since before the program went on from a record
		s.ids[x.id] = x
	}
	if x.token != 0 {
		s.tokens[x.token] = x
	}
	return x, gpubackend.Success
}

// forget drops memory that is gone.
func (s *exchange) forget(x *memory) {
	if x.number != 0 {
		delete(s.numbers, x.number)
	}
	if x.id != 0 {
		delete(s.ids, x.id)
	}
	if s.tokens[x.token] == x {
		delete(s.tokens, x.token)
	}
	s.endOffer(x)
}

// Shared is how many memories were exported, and how many are other processes'.
func (m *Memory) Shared() (exported, imported int) {
	return m.exchange.offered, len(m.exchange.tokens) - m.exchange.offered + m.Lone()
}

// Lone is how many memories of other processes have no token: they can't be found again.
func (m *Memory) Lone() (n int) {
	for _, x := range m.exchange.ids {
		if x.token == 0 {
			n++
		}
	}
	return n
}
