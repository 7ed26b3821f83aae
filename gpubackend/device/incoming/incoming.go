// SPDX-License-Identifier: Apache-2.0

// Package incoming keeps the device memory of a VM's programs that comes before the VM does: it
// comes from the source host's device process (package precopy), for the workers that are made when
// the VM's state comes.
//
// What came for a channel is a file of memory, in which each sector is at the offset that is its
// address. It has holes where nothing came.
//
// # Who owns what
//
// An Incoming has a lock, under which it calls nobody. Until a session is complete it belongs to
// the goroutine that receives it; from then on the next session replaces it, or Forget drops it. A
// file that is taken is the caller's.
//
// # Who may lie
//
// The other device process. How much it may send is bounded before it sends anything, channels and
// addresses must be possible ones, and the contents are never looked at.
package incoming

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/fileat"
	"github.com/paracuda/paracuda/gpubackend/precopy"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// Config is what an Incoming needs of its VM.
type Config struct {
	Header   precopy.Header // what comes must have the same
	Channels int            // that the VM has
	// Suits says why no VM can come now; nil: one can.
	Suits func() error
	// Room is how much memory the host has for what comes, Most how much may come; 0: as much as
	// there is.
	Room func() (uint64, error)
	Most func() uint64
	// Answer is how long the other side may take to answer.
	Answer time.Duration
}

// Incoming is what came.
type Incoming struct {
	config Config

	mu   sync.Mutex
	busy bool     // a session goes on; guarded by mu
	came *session // the last complete one; nil: there is none; guarded by mu
}

// New returns the Incoming of a VM for which nothing came.
func New(c Config) *Incoming { return &Incoming{config: c} }

// maxAddress is more than any address of device memory (package devmem).
const maxAddress = 1 << 48

var (
	errBusy = errors.New("the memory of another VM comes already")
	errRoom = errors.New("there is no room for what comes")
)

// session is the memory of one VM.
type session struct {
	number   uint64
	channels int
	left     uint64 // bytes for which there is still room
	bytes    uint64
	images   map[int]*programImage
}

// programImage is the memory of one program.
type programImage struct {
	fd  int
	has map[uint64]bool // sectors, by their addresses
}

// Receive takes a session from a connection until it is complete, and returns its bytes. tell is
// called now and then with the bytes so far.
func (i *Incoming) Receive(c precopy.Conn, tell func(bytes uint64)) (bytes uint64, err error) {
	if err := i.begin(); err != nil {
		return 0, err
	}
	s := &session{channels: i.config.Channels, images: map[int]*programImage{}}
	kept := false
	defer func() {
		if !kept {
			s.close()
		}
		i.mu.Lock()
		i.busy = false
		i.mu.Unlock()
	}()
	err = precopy.Receive(c, i.config.Header, i.config.Answer,
		func(number uint64) (precopy.Store, error) {
			s.number = number
			return &telling{s, tell}, i.admit(s)
		}, func() {
			kept = true
			i.keep(s)
		})
	return s.bytes, err
}

// begin begins a session, if none goes on.
func (i *Incoming) begin() error {
	if err := i.config.Suits(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.busy {
		return errBusy
	}
	i.busy = true
	return nil
}

// admit decides how much may come in a session. What came before is dropped.
func (i *Incoming) admit(s *session) error {
	i.Forget()
	room, err := i.config.Room()
	if err != nil {
		return err
	}
	s.left = room
	if most := i.config.Most(); most != 0 {
		s.left = min(room, most)
	}
	return nil
}

// keep makes a session the one with which a VM may come.
func (i *Incoming) keep(s *session) {
	i.mu.Lock()
	before := i.came
	i.came = s
	i.mu.Unlock()
	before.close()
}

// Has says whether the session of that number is complete.
func (i *Incoming) Has(session uint64) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.came != nil && i.came.number == session
}

// Image is the memory of a channel's program that came in a session.
func (i *Incoming) Image(session uint64, channel int) (*os.File, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.came == nil || i.came.number != session {
		return nil, errors.New("its device memory went ahead to another device process, " +
			"or is gone: migrate again")
	}
	x, err := i.came.image(channel)
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(uintptr(x.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("take what came ahead: %w", err)
	}
	return os.NewFile(uintptr(fd), "image"), nil
}

// Forget gives back what came.
func (i *Incoming) Forget() {
	i.mu.Lock()
	before := i.came
	i.came = nil
	i.mu.Unlock()
	before.close()
}

// image is the memory of a channel's program, which may be empty.
func (s *session) image(channel int) (*programImage, error) {
	if x := s.images[channel]; x != nil {
		return x, nil
	}
	fd, err := unix.MemfdCreate("precopied", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	x := &programImage{fd, map[uint64]bool{}}
	s.images[channel] = x
	return x, nil
}

// Put implements precopy.Store.
func (s *session) Put(channel int, address uint64, b []byte) error {
	if channel < 0 || channel >= s.channels || address >= maxAddress {
		return fmt.Errorf("there is no memory at %#x in channel %d", address, channel)
	}
	x, err := s.image(channel)
	if err != nil {
		return err
	}
	if !x.has[address] {
		if s.left < sectorsum.Bytes {
			return errRoom
		}
		s.left -= sectorsum.Bytes
		s.bytes += sectorsum.Bytes
		x.has[address] = true
	}
	if _, err := fileat.Write(x.fd, b, int64(address)); err != nil {
		return fmt.Errorf("keep what comes ahead: %w", err)
	}
	return nil
}

// close gives back what a session has; nil has nothing.
func (s *session) close() {
	if s == nil {
		return
	}
	for _, x := range s.images {
		_ = unix.Close(x.fd)
	}
	s.images = nil
}

// telling tells how much there is.
type telling struct {
	*session
	tell func(bytes uint64)
}

// Put implements precopy.Store.
func (t *telling) Put(channel int, address uint64, b []byte) error {
	err := t.session.Put(channel, address, b)
	t.tell(t.bytes)
	return err
}
