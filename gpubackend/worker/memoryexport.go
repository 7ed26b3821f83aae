// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// sharedMemory is what is known of memory that has been exported or imported, so that memory which comes back to its own
// process, or a second time, is the same and counts once.
type sharedMemory struct {
	numbers map[uint32]*memory // exported, by this process's number
	ids     map[uint64]*memory // imported, by the device process's
}

// maxMemoryHandles bounds the handles that a guest can have of memory that counts once.
const maxMemoryHandles = 1 << 18

// runExportMemory offers memory.
func (w *Worker) runExportMemory(c *call.Call, a command.MemExportToShareableHandle) gpubackend.Result {
	x := w.mappings.memory[a.Memory]
	if x == nil {
		return gpubackend.InvalidValue
	}
	s := &w.mappings.shared
	if x.number == 0 {
		if x.number = w.offerNumber(); x.number == 0 {
			return gpubackend.OutOfMemory
		}
		if s.numbers == nil {
			s.numbers = map[uint32]*memory{}
		}
		s.numbers[x.number] = x
	}
	fd, result := w.driver.ExportMemory(gpubackend.Memory(x.native))
	if result != gpubackend.Success {
		return result
	}
	defer unix.Close(fd)
	o := handover.Object{Kind: handover.ObjectMemory, Number: x.number, Bytes: x.bytes, Device: x.device}
	if result := w.offerObject(o, fd); result != gpubackend.Success {
		return result
	}
	c.Put(command.MemExportToShareableHandleAnswer{Number: uint64(x.number)})
	return gpubackend.Success
}

// runImportMemory opens memory that the device process has handed over.
func (w *Worker) runImportMemory(c *call.Call, a command.MemImportFromShareableHandle) gpubackend.Result {
	i, result := w.imports.take(a.Number, handover.ObjectMemory)
	if result != gpubackend.Success {
		return result
	}
	defer i.close()
	if w.objects.Count(object.Memory) >= maxMemoryHandles {
		return gpubackend.OutOfMemory
	}
	x, result := w.importMemory(&i)
	if result != gpubackend.Success {
		return result
	}
	handle := w.addMemory(x)
	if handle == 0 {
		w.unuse(x)
		return gpubackend.OutOfMemory
	}
	c.Put(command.MemImportFromShareableHandleAnswer{Memory: handle, Bytes: x.bytes, Device: x.device})
	return gpubackend.Success
}

// importMemory returns the memory with a use more: what is here already, or what the file gives.
func (w *Worker) importMemory(i *imported) (*memory, gpubackend.Result) {
	s := &w.mappings.shared
	x := s.ids[i.ID]
	if i.Own {
		x = s.numbers[i.Number]
	}
	if x != nil {
		x.uses++
		return x, gpubackend.Success
	}
	if i.file < 0 || i.Bytes == 0 || i.Bytes%gpubackend.Granularity != 0 {
		return nil, gpubackend.InvalidValue
	}
	native, result := w.driver.ImportMemory(i.file, i.Bytes, i.Device)
	if result == gpubackend.OutOfMemory && w.pools.empty(w) {
		native, result = w.driver.ImportMemory(i.file, i.Bytes, i.Device)
	}
	if result != gpubackend.Success {
		return nil, result
	}
	x = &memory{native: uint64(native), bytes: i.Bytes, device: i.Device, id: i.ID, uses: 1}
	if s.ids == nil {
		s.ids = map[uint64]*memory{}
	}
	s.ids[i.ID] = x
	return x, gpubackend.Success
}

// forget drops memory that is gone.
func (s *sharedMemory) forget(x *memory) {
	if x.number != 0 {
		delete(s.numbers, x.number)
	}
	if x.id != 0 {
		delete(s.ids, x.id)
	}
}
