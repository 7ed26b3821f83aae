// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/fixed"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/memword"
	"github.com/paracuda/paracuda/virtqueue"
)

// State is memory that a worker and its device process share, so that the latter can go on where a
// worker stopped, however it ended: which chains it holds, what it counted, and what is fixed.
type State struct {
	fd  int
	mem []byte
}

// Layout: the counters, the next avail index, a word that asks for a cold worker, the head that is
// being returned, what is fixed, then a byte for each head, set while it is in flight.
//
// A worker can be killed between any two writes. So the avail index is written together with the
// last head that was taken, until that has its byte; and before a head goes to the used ring it is
// noted with the used index, which tells whether it got there.
const (
	baseOffset     = 8 * int(counters)
	coldOffset     = baseOffset + 8
	givingOffset   = coldOffset + 8
	fixedOffset    = 256
	inFlightOffset = 512
	maxHeads       = virtqueue.MaxSize
	stateBytes     = inFlightOffset + maxHeads
)

// None overlaps the next.
const (
	_ = uint(fixedOffset - givingOffset - 8)
	_ = uint(inFlightOffset - fixedOffset - 8*int(fixed.Kinds))
)

// NewState makes an empty state.
func NewState() (*State, error) {
	// Its size is sealed: a worker can't pull it from under the device process.
	fd, err := memfd.New("paracuda-state", stateBytes)
	if err != nil {
		return nil, fmt.Errorf("make state: %w", err)
	}
	return OpenState(fd)
}

// OpenState maps a state and takes over its file.
func OpenState(fd int) (*State, error) {
	mem, err := unix.Mmap(fd, 0, stateBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("map state: %w", err)
	}
	return &State{fd: fd, mem: mem}, nil
}

// AdoptState is OpenState for a file from a process that is gone, which may be any file.
func AdoptState(fd int) (*State, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	seals := 0
	if err == nil {
		seals, err = unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	}
	if err == nil && (st.Size != stateBytes || seals&unix.F_SEAL_SHRINK == 0) {
		err = fmt.Errorf("it has %d bytes and seals %#x", st.Size, seals)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("adopt state: %w", err)
	}
	return OpenState(fd)
}

// FD is the file to pass on.
func (s *State) FD() int { return s.fd }

// Close unmaps the state.
func (s *State) Close() {
	_ = unix.Munmap(s.mem)
	unix.Close(s.fd)
}

// Take records that a head was taken, and the avail index of the next.
func (s *State) Take(head, base uint16) {
	atomic.StoreUint64(memword.Of64(s.mem[baseOffset:]), noted(head, base))
	s.mem[inFlightOffset+int(head)%maxHeads] = 1
	s.SetBase(base)
}

// noted packs a head with an index. 0 stands for none.
func noted(head, index uint16) uint64 { return 1<<32 | uint64(head)<<16 | uint64(index) }

// readNoted is the reverse.
func readNoted(v uint64) (head, index uint16, ok bool) {
	return uint16(v >> 16), uint16(v), v>>32 != 0
}

// Giving records that a head is about to be returned, at that used index.
func (s *State) Giving(head, used uint16) {
	atomic.StoreUint64(memword.Of64(s.mem[givingOffset:]), noted(head, used))
}

// Give records that a head was returned.
func (s *State) Give(head uint16) {
	s.mem[inFlightOffset+int(head)%maxHeads] = 0
	atomic.StoreUint64(memword.Of64(s.mem[givingOffset:]), 0)
}

// Given returns the head that was being returned when the worker ended, and at which used index.
func (s *State) Given() (head, used uint16, ok bool) {
	return readNoted(atomic.LoadUint64(memword.Of64(s.mem[givingOffset:])))
}

// SetBase records the next avail index.
func (s *State) SetBase(base uint16) {
	atomic.StoreUint64(memword.Of64(s.mem[baseOffset:]), uint64(base))
}

// Base returns the avail index of the next chain to take.
func (s *State) Base() uint16 { return uint16(atomic.LoadUint64(memword.Of64(s.mem[baseOffset:]))) }

// AskCold records that nothing has been done for the guest process yet: if the worker ends, one who
// begins cold gets the queue from its beginning. A warm worker that can't serve its process says so
// as it ends; of one that begins cold in its place the device process says so, until Serves.
func (s *State) AskCold() { atomic.StoreUint32(memword.Of32(s.mem[coldOffset:]), 1) }

// Serves records that a worker serves its guest process from now on.
func (s *State) Serves() { atomic.StoreUint32(memword.Of32(s.mem[coldOffset:]), 0) }

// AskedCold tells whether AskCold was called, and Serves wasn't called after that.
func (s *State) AskedCold() bool { return atomic.LoadUint32(memword.Of32(s.mem[coldOffset:])) != 0 }

// InFlight returns the heads below size that were taken and not returned.
func (s *State) InFlight(size uint16) []uint16 {
	var heads []uint16
	last, _, taken := readNoted(atomic.LoadUint64(memword.Of64(s.mem[baseOffset:])))
	for i := range int(size) {
		if s.mem[inFlightOffset+i] != 0 || taken && i == int(last) {
			heads = append(heads, uint16(i))
		}
	}
	return heads
}

// ReturnedNone says whether all that was taken since an avail index is in flight.
func (s *State) ReturnedNone(base uint16) bool {
	return int(s.Base()-base) == len(s.InFlight(maxHeads))
}

// Count adds to a counter. Only the worker counts.
func (s *State) Count(c Counter, n uint64) {
	p := memword.Of64(s.mem[8*c:])
	atomic.StoreUint64(p, atomic.LoadUint64(p)+n)
}

// Set sets a counter.
func (s *State) Set(c Counter, n uint64) { atomic.StoreUint64(memword.Of64(s.mem[8*c:]), n) }

// Counters reads all counters.
func (s *State) Counters() (c Counters) {
	for i := range c {
		c[i] = atomic.LoadUint64(memword.Of64(s.mem[8*i:]))
	}
	return c
}

// SetFixed records what keeps the program where it is. It costs little if that hasn't changed.
func (s *State) SetFixed(c *fixed.Counts) {
	for i, n := range c {
		if p := memword.Of64(s.mem[fixedOffset+8*i:]); atomic.LoadUint64(p) != n {
			atomic.StoreUint64(p, n)
		}
	}
}

// Fixed is what keeps the program where it is.
func (s *State) Fixed() (c fixed.Counts) {
	for i := range c {
		c[i] = atomic.LoadUint64(memword.Of64(s.mem[fixedOffset+8*i:]))
	}
	return c
}
