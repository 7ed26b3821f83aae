// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
)

// shares is device memory of this process that others of the guest may map. Each is offered under a random name,
// which the guest hands on in a CUipcMemHandle: who knows the name may have the memory.
type shares struct {
	offered map[uint64]*share // by address
	mapped  map[uint64]bool   // memory of others, by address
}

type share struct {
	gpubackend.Shared
	token    [16]byte
	context  uint64
	listener *net.UnixListener
	fd       int
}

// ipcTimeout bounds what another worker can hold this one up.
const ipcTimeout = 2 * time.Second

func socketName(token []byte) *net.UnixAddr {
	return &net.UnixAddr{Name: "@paracuda-memory-" + hex.EncodeToString(token), Net: "unix"}
}

// runIpcShare offers memory: address. The answer is the name, in two words, start and size of the memory in its file
// and the offset of the address in the memory.
func runIpcShare(w *Worker, c *call) gpubackend.Result {
	address := c.word(0)
	s := w.shares.offered[address]
	if s == nil {
		var result gpubackend.Result
		if s, result = w.offer(address); result != gpubackend.Success {
			return result
		}
	}
	c.answer(binary.LittleEndian.Uint64(s.token[:]))
	c.answer(binary.LittleEndian.Uint64(s.token[8:]))
	c.answer(s.Start)
	c.answer(s.Bytes)
	c.answer(s.Offset)
	return gpubackend.Success
}

func (w *Worker) offer(address uint64) (*share, gpubackend.Result) {
	shared, fd, result := w.driver.Share(address)
	if result != gpubackend.Success {
		return nil, result
	}
	s := &share{Shared: shared, fd: fd, context: w.home(w.context)}
	_, _ = rand.Read(s.token[:])
	var err error
	if s.listener, err = net.ListenUnix("unix", socketName(s.token[:])); err != nil {
		w.log.WithError(err).Warn("offer memory to other processes")
		unix.Close(fd)
		return nil, gpubackend.OutOfMemory
	}
	go s.serve()
	if w.shares.offered == nil {
		w.shares.offered = map[uint64]*share{}
	}
	w.shares.offered[address] = s
	return s, gpubackend.Success
}

// serve gives the file to whoever asks, until the share ends.
func (s *share) serve() {
	defer unix.Close(s.fd)
	for {
		conn, err := s.listener.AcceptUnix()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(ipcTimeout))
		_, _, _ = conn.WriteMsgUnix([]byte{1}, unix.UnixRights(s.fd), nil)
		_ = conn.Close()
	}
}

// runIpcOpen maps memory that another worker offers: name, start, size, offset.
func runIpcOpen(w *Worker, c *call) gpubackend.Result {
	var token [16]byte
	binary.LittleEndian.PutUint64(token[:], c.word(0))
	binary.LittleEndian.PutUint64(token[8:], c.word(1))
	s := gpubackend.Shared{Start: c.word(2), Bytes: c.word(3), Offset: c.word(4)}
	for _, own := range w.shares.offered {
		if own.token == token {
			return gpubackend.InvalidContext // as CUDA has it: memory is shared between processes
		}
	}
	if s.Offset >= s.Bytes {
		return gpubackend.InvalidValue
	}
	fd, err := receiveFile(token[:])
	if err != nil {
		w.log.WithError(err).Warn("get another process's memory")
		return gpubackend.InvalidValue
	}
	defer unix.Close(fd)
	address, result := w.driver.MapShared(s, fd)
	if result != gpubackend.Success {
		return result
	}
	if w.shares.mapped == nil {
		w.shares.mapped = map[uint64]bool{}
	}
	w.shares.mapped[address] = true
	c.answer(address + s.Offset)
	c.answer(address)
	return gpubackend.Success
}

func receiveFile(token []byte) (int, error) {
	conn, err := net.DialUnix("unix", nil, socketName(token))
	if err != nil {
		return -1, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(ipcTimeout))
	data, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(data, control)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, errors.Join(fmt.Errorf("%d control messages", len(messages)), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(fmt.Errorf("%d files", len(fds)), err)
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}

// runIpcClose unmaps it when nothing uses it: the address of the whole.
func runIpcClose(w *Worker, c *call) gpubackend.Result {
	address := c.word(0)
	if !w.shares.mapped[address] {
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

func (s *shares) forget(context uint64) {
	for address, x := range s.offered {
		if x.context == context {
			s.withdraw(address)
		}
	}
}
