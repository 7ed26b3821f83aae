// SPDX-License-Identifier: Apache-2.0

package memory

import (
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
}

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
	fd, result := m.Driver.ExportMemory(gpubackend.Memory(x.native))
	if result != gpubackend.Success {
		return result
	}
	defer unix.Close(fd)
	o := handover.Object{Kind: handover.ObjectMemory, Number: x.number, Bytes: x.bytes}
	if result := m.Exports.Offer(o, x.device, fd); result != gpubackend.Success {
		return result
	}
	c.Put(command.MemExportToShareableHandleAnswer{Number: uint64(x.number)})
	return gpubackend.Success
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
	x = &memory{native: uint64(native), bytes: i.Bytes, device: i.Device, id: i.ID, uses: 1}
	s.ids[i.ID] = x
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
}

// Shared is how many memories were exported, and how many imported.
func (m *Memory) Shared() (exported, imported int) {
	return len(m.exchange.numbers), len(m.exchange.ids)
}
