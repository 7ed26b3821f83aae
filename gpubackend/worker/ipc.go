// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// shares is device memory and events of this process that others of the guest may have. Each is offered under a random
// secret, which the guest hands on in a CUipcMemHandle or CUipcEventHandle: who knows the secret may have it (ipcoffer.go).
type shares struct {
	offered map[uint64]*share // memory by the address of the allocation
	mapped  map[uint64]uint64 // memory of others: the context, by address
	events  map[uint64]*share // events by handle
}

// maxSharedMemory bounds the sockets and goroutines that a guest can make a worker have.
const maxSharedMemory = 1 << 12

type share struct {
	gpubackend.Shared
	offer
	context uint64
}

// pieceBytes is the size of what an offer of memory says: start and size of the memory in its file. The guest doesn't say
// that: the file may hold more, which it may not have.
const pieceBytes = 16

func describePiece(s gpubackend.Shared) []byte {
	b := binary.LittleEndian.AppendUint64(nil, s.Start)
	return binary.LittleEndian.AppendUint64(b, s.Bytes)
}

// receivePiece asks for memory that another process offers. The offset is the caller's to fill in.
func receivePiece(name [16]byte) (s gpubackend.Shared, fd int, err error) {
	text, fd, err := receive(offersMemory, name[:], pieceBytes)
	if err == nil && fd < 0 {
		err = errors.New("no file")
	}
	if err != nil {
		return s, -1, err
	}
	return gpubackend.Shared{Start: binary.LittleEndian.Uint64(text), Bytes: binary.LittleEndian.Uint64(text[8:])}, fd, nil
}

// own says whether this process offers something under a name itself.
func own(offers map[uint64]*share, token [16]byte) bool {
	for _, s := range offers {
		if s.token == token {
			return true
		}
	}
	return false
}

// runIpcShare offers an allocation: once, and for as long as it is there.
func (w *Worker) runIpcShare(c *call.Call, a command.IpcGetMemHandle) gpubackend.Result {
	address := a.Address
	s := w.shares.offered[address]
	if s == nil {
		var result gpubackend.Result
		if s, result = w.offer(address); result != gpubackend.Success {
			return result
		}
	}
	c.Put(command.IpcGetMemHandleAnswer{Name: s.token, Start: s.Start, Bytes: s.Bytes, Offset: s.Offset})
	return gpubackend.Success
}

func (w *Worker) offer(address uint64) (*share, gpubackend.Result) {
	if len(w.shares.offered) >= maxSharedMemory {
		return nil, gpubackend.OutOfMemory
	}
	shared, fd, result := w.driver.Share(address)
	if result != gpubackend.Success {
		return nil, result
	}
	if !shared.Allocated {
		unix.Close(fd)
		return nil, gpubackend.InvalidValue
	}
	w.watchMemory()
	s := &share{Shared: shared, offer: offer{text: describePiece(shared), fd: fd}, context: w.contexts.HomeOfCurrent()}
	if err := s.open(offersMemory); err != nil {
		w.log.WithError(err).Warn("share memory")
		return nil, gpubackend.OutOfMemory
	}
	if w.shares.offered == nil {
		w.shares.offered = map[uint64]*share{}
	}
	w.shares.offered[address] = s
	return s, gpubackend.Success
}

// runIpcOpen maps memory that another worker offers.
func (w *Worker) runIpcOpen(c *call.Call, a command.IpcOpenMemHandle) gpubackend.Result {
	if own(w.shares.offered, a.Name) {
		return gpubackend.InvalidContext // as CUDA has it: memory is shared between processes
	}
	s, fd, err := receivePiece(a.Name)
	if err != nil {
		w.log.WithError(err).Warn("get another process's memory")
		return gpubackend.InvalidValue
	}
	defer unix.Close(fd)
	if s.Start != a.Start || s.Bytes != a.Bytes || a.Offset >= s.Bytes {
		return gpubackend.InvalidValue
	}
	s.Offset = a.Offset
	address, result := w.driver.MapShared(s, fd)
	if result != gpubackend.Success {
		return result
	}
	if w.shares.mapped == nil {
		w.shares.mapped = map[uint64]uint64{}
	}
	w.shares.mapped[address] = w.contexts.HomeOfCurrent()
	c.Put(command.IpcOpenMemHandleAnswer{Address: address + s.Offset, Whole: address})
	return gpubackend.Success
}

// runIpcClose unmaps it when nothing uses it.
func (w *Worker) runIpcClose(c *call.Call, a command.IpcCloseMemHandle) gpubackend.Result {
	address := a.Whole
	if _, ok := w.shares.mapped[address]; !ok {
		return gpubackend.InvalidValue
	}
	delete(w.shares.mapped, address)
	return w.whenIdle(c, func() (uint64, gpubackend.Result) { return 0, w.driver.UnmapShared(address) })
}

// withdraw ends the offer of memory that is freed.
func (s *shares) withdraw(address uint64) {
	if x := s.offered[address]; x != nil {
		_ = x.listener.Close()
		delete(s.offered, address)
	}
}

// withdrawIn ends the offers of memory in a range that the device gives up.
func (s *shares) withdrawIn(address, bytes uint64) {
	for at := range s.offered {
		if at-address < bytes {
			s.withdraw(at)
		}
	}
}

// forget ends the offers of a context that is gone, and drops what it had of others.
func (s *shares) forget(context uint64) {
	for address, of := range s.mapped {
		if of == context {
			delete(s.mapped, address)
		}
	}
	for address, x := range s.offered {
		if x.context == context {
			s.withdraw(address)
		}
	}
	for handle, x := range s.events {
		if x.context == context {
			s.withdrawEvent(handle)
		}
	}
}
