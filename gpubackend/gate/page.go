// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/memword"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Entries is how many workers a page has room for.
const Entries = wire.MaxChannels

// Layout: the gate's word with the turn, the arbiter's beat in a cache line of its own, and from
// entriesAt on a cache line for each worker, which nobody else writes: work waiting, work in
// flight.
const (
	lineBytes = 64
	turnAt    = 8 // its number
	overrunAt = 16
	beatAt    = lineBytes
	entriesAt = 4096
	flightAt  = 4 // within an entry
	pageBytes = entriesAt + Entries*lineBytes
)

// ErrPage says that a file isn't a gate's page.
var ErrPage = errors.New("not a gate's page")

// Page is the memory, and its event descriptors.
type Page struct {
	mem                  []byte
	memory, bell, opened int
}

// New makes a page whose gate is open and free.
func New() (*Page, error) {
	fds := []int{-1, -1, -1}
	if err := prepare(fds); err != nil {
		closeAll(fds)
		return nil, err
	}
	p, err := Open(fds[0], fds[1], fds[2])
	if err != nil {
		return nil, err
	}
	p.Set(Unshared)
	return p, nil
}

// prepare makes the memory, fds[0], and the events.
func prepare(fds []int) (err error) {
	if fds[0], err = memfd.New("paracuda-gate", pageBytes); err != nil {
		return fmt.Errorf("make gate: %w", err)
	}
	for i := 1; i < len(fds); i++ {
		if fds[i], err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			return fmt.Errorf("make the gate's events: %w", err)
		}
	}
	return nil
}

// Open maps a page that another process made, and takes over its descriptors, which it closes on an
// error.
func Open(memory, bell, opened int) (*Page, error) {
	for _, fd := range []int{bell, opened} {
		if err := checkEvent(fd); err != nil {
			closeAll([]int{memory, bell, opened})
			return nil, err
		}
	}
	return OpenOwn(memory, bell, opened)
}

// OpenOwn is Open for a worker, whose device process says the truth of what it sends. A worker that
// is confined can't ask the kernel what its descriptors are.
func OpenOwn(memory, bell, opened int) (*Page, error) {
	fds := []int{memory, bell, opened}
	if err := check(memory); err != nil {
		closeAll(fds)
		return nil, err
	}
	for _, fd := range fds[1:] { // a write or read of ours must never block
		if err := unix.SetNonblock(fd, true); err != nil {
			closeAll(fds)
			return nil, fmt.Errorf("open gate: %w", err)
		}
	}
	mem, err := unix.Mmap(memory, 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		closeAll(fds)
		return nil, fmt.Errorf("map gate: %w", err)
	}
	return &Page{mem: mem, memory: memory, bell: bell, opened: opened}, nil
}

// check says whether a file is memory of the right size that can't be made shorter.
func check(fd int) error {
	if err := memfd.Check(fd, pageBytes); err != nil {
		return fmt.Errorf("open gate: %w: %w", ErrPage, err)
	}
	return nil
}

// checkEvent says whether a descriptor is an eventfd: others could be readable for ever.
func checkEvent(fd int) error {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || name != "anon_inode:[eventfd]" {
		return fmt.Errorf("open gate: %w: %q is no event", ErrPage, name)
	}
	return nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// FDs are the descriptors to pass to other processes.
func (p *Page) FDs() (memory, bell, opened int) { return p.memory, p.bell, p.opened }

// BellFD can be read when a worker has rung.
func (p *Page) BellFD() int { return p.bell }

// Close unmaps the page. No Worker of it may be used any more.
func (p *Page) Close() {
	_ = unix.Munmap(p.mem)
	closeAll([]int{p.memory, p.bell, p.opened})
}

// State is what the gate's word says.
func (p *Page) State() State { return stateOf(atomic.LoadUint32(memword.Of32(p.mem))) }

// Set changes the gate's word. Whoever closes the gate must look at Demand afterwards.
func (p *Page) Set(s State) {
	atomic.StoreUint32(memword.Of32(p.mem), s.word())
	drain(p.opened)
	if s.Open || s.Soon {
		ring(p.opened)
	}
}

// SetTurn tells the workers which turn it is. It must come before the gate is opened for the turn.
func (p *Page) SetTurn(t Turn) {
	atomic.StoreUint64(memword.Of64(p.mem[turnAt:]), t.Number)
	atomic.StoreUint64(memword.Of64(p.mem[overrunAt:]), t.Overruns)
}

// Demand is the work of all workers together.
func (p *Page) Demand() (waiting, inFlight bool) {
	for entry := range Entries {
		line := p.mem[entriesAt+entry*lineBytes:]
		waiting = waiting || atomic.LoadUint32(memword.Of32(line)) != 0
		inFlight = inFlight || atomic.LoadUint32(memword.Of32(line[flightAt:])) != 0
	}
	return waiting, inFlight
}

// Clear empties the entry of a worker that has ended.
func (p *Page) Clear(entry int) {
	line := p.mem[entriesAt+entry*lineBytes:]
	atomic.StoreUint32(memword.Of32(line), 0)
	atomic.StoreUint32(memword.Of32(line[flightAt:]), 0)
	ring(p.bell)
}

// Beat records that the arbiter lives, at a time on the host's monotonic clock.
func (p *Page) Beat(now time.Duration) {
	atomic.StoreUint64(memword.Of64(p.mem[beatAt:]), uint64(now))
}

// Beaten is when the arbiter last beat.
func (p *Page) Beaten() time.Duration {
	return time.Duration(atomic.LoadUint64(memword.Of64(p.mem[beatAt:])))
}

// Listen clears the bell, and must come before the look at Demand.
func (p *Page) Listen() { drain(p.bell) }

// ring makes an event descriptor readable.
func ring(fd int) { _, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// drain makes it unreadable.
func drain(fd int) {
	var b [8]byte
	_, _ = unix.Read(fd, b[:])
}
