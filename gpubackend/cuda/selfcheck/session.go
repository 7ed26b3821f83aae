// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mover"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// guestBase is where the check's guest has its memory.
const guestBase = 0x1_0000_0000

func address(b []byte) uint64 { return uint64(guestmem.Addr(b)) }

// sharedMemory makes n bytes as a VM has them: a file in memory, sealed against shrinking, its
// pages touched.
func sharedMemory(n uint64) ([]byte, int, error) {
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, -1, fmt.Errorf("guest memory: %w", err)
	}
	if err = unix.Ftruncate(fd, int64(n)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	}
	var mem []byte
	if err == nil {
		mem, err = unix.Mmap(fd, 0, int(n), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	if err != nil {
		unix.Close(fd)
		return nil, -1, fmt.Errorf("guest memory: %w", err)
	}
	return mem, fd, nil
}

// session is a mover with one guest and one worker, whose staging memory is on the device of the
// check.
type session struct {
	control *handover.Conn
	client  *mover.Client
	guest   []byte
	fd      int
	staging uint32
	address uint64 // of the staging memory here
	ended   chan error
}

// startMover runs the mover of the configuration, or one in this process.
func (c *checker) startMover(s *session) error {
	if c.config.StartMover != nil {
		var err error
		s.control, err = c.config.StartMover()
		return err
	}
	mine, its, err := handover.Pair()
	if err != nil {
		return err
	}
	control, err := handover.NewConn(its)
	if err != nil {
		return err
	}
	s.control, s.ended = mine, make(chan error, 1)
	go func() {
		s.ended <- mover.Run(mover.Config{Control: control, Log: c.config.Log,
			Library: c.config.Library})
		control.Close()
	}()
	return nil
}

// newSession starts a mover for a guest of n bytes and lends it as much staging memory.
func (c *checker) newSession(n uint64) (*session, error) {
	s := &session{fd: -1}
	var err error
	if s.guest, s.fd, err = sharedMemory(n); err != nil {
		return nil, err
	}
	if err = c.startMover(s); err == nil {
		err = s.begin()
	}
	if err == nil {
		err = c.lend(s, n)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// begin does what a device process does: the guest's memory, then a worker.
func (s *session) begin() error {
	regions, files := handover.Describe([]guestmem.Region{{GuestAddr: guestBase,
		Size: uint64(len(s.guest)), FD: s.fd}})
	start := &handover.Message{Kind: handover.KindStart, GPU: "cuda", Memory: regions,
		Files: handover.Files{Memory: len(files)}}
	if err := s.control.Send(start, files); err != nil {
		return err
	}
	if err := s.expect(handover.KindReady); err != nil {
		return err
	}
	near, far, err := link.New()
	if err != nil {
		return err
	}
	attach := &handover.Message{Kind: handover.KindAttach}
	err = s.control.Send(attach, far.Put(attach))
	far.Close()
	if err != nil {
		near.Close()
		return err
	}
	s.client, err = mover.NewClient(near)
	return err
}

func (s *session) expect(kind handover.Kind) error {
	m, _, err := s.control.Receive()
	switch {
	case err != nil:
		return err
	case m.Error != "":
		return errors.New(m.Error)
	case m.Kind != kind:
		return fmt.Errorf("message %q, want %q", m.Kind, kind)
	}
	return nil
}

func (c *checker) lend(s *session, n uint64) error {
	addr, fd, r := c.device.Staging(n)
	if err := must("staging memory", r); err != nil {
		return err
	}
	defer unix.Close(fd)
	s.address = addr
	var err error
	s.staging, err = s.client.Attach(fd, 0, n)
	return err
}

// move makes the mover copy, and polls for the end.
func (s *session) move(m *moves.Move) error {
	m.Staging = s.staging
	if err := s.client.Start(m); err != nil {
		return err
	}
	var moved []moves.Completion
	for deadline := time.Now().Add(30 * time.Second); ; {
		var err error
		if moved, err = s.client.Poll(moved[:0]); err != nil {
			return err
		}
		if len(moved) > 0 {
			return moved[0].Err
		}
		if time.Now().After(deadline) {
			return errors.New("the mover hasn't reported an end after 30 s")
		}
	}
}

// close ends the mover as a device process does.
func (s *session) close() {
	if s.client != nil {
		_ = s.client.Close()
	}
	if s.control != nil {
		if s.control.Send(&handover.Message{Kind: handover.KindStop}, nil) == nil {
			_ = s.expect(handover.KindStopped)
		}
		s.control.Close()
	}
	if s.ended != nil {
		<-s.ended
	}
	if s.guest != nil {
		_ = unix.Munmap(s.guest)
		unix.Close(s.fd)
	}
}
