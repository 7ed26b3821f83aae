// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/memword"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// word is one number of a page.
type word = atomic.Uint64

// wordAt returns the word at an offset of a page.
func wordAt(mem []byte, at int) *word { return memword.Atomic64(mem[at:]) }

// Entries of a page. A worker has one of those below Warm while it serves a guest process, and one
// from Warm on while it is kept warm.
const (
	Workers = wire.MaxChannels
	Mover   = Workers
	Warm    = Workers + 1
	Entries = Warm + Workers
)

// GPUs is how many GPUs a page has room for.
const GPUs = 16

// Layout: the bound, which is the same for each GPU, how busy the VM keeps them, the room, what the
// only GPU has, and the host's memory; then a section for each GPU. A section begins with cache
// lines of its own numbers, and has a cache line for each entry.
const (
	boundAt      = 0
	busyAt       = 8
	roomAt       = 16
	totalAt      = 24
	hostBoundAt  = 32
	hostTakenAt  = 64  // apart from what is only read, as are the entries' parts
	hostHeldAt   = 128 // a word for each entry
	sectionsAt   = 4096
	lineBytes    = 128
	idAt         = 0
	takenAt      = 64 // apart from what is only read
	contextAt    = 8
	pidAt        = 0 // within an entry
	otherAt      = 8
	peakAt       = 16
	kindsAt      = 24
	sectionBytes = (1 + Entries) * lineBytes
	pageBytes    = sectionsAt + (GPUs*sectionBytes+4095)/4096*4096
)

// ErrPage says that a file isn't a ledger's page.
var ErrPage = errors.New("not a ledger's page")

// Page is the memory.
type Page struct {
	mem      []byte
	fd       int
	sections [GPUs]*GPU
}

// New makes an empty page without a bound.
func New() (*Page, error) {
	fd, err := memfd.New("paracuda-ledger", pageBytes)
	if err != nil {
		return nil, fmt.Errorf("make ledger: %w", err)
	}
	return Open(fd)
}

// Open maps a page that another process made, and takes over its file, which it closes on an error.
func Open(fd int) (*Page, error) {
	if err := check(fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("map ledger: %w", err)
	}
	p := &Page{mem: mem, fd: fd}
	for i := range p.sections {
		p.sections[i] = newGPU(mem, sectionsAt+i*sectionBytes)
	}
	return p, nil
}

// check says whether a file is memory of the right size that can't be made shorter.
func check(fd int) error {
	if err := memfd.Check(fd, pageBytes); err != nil {
		return fmt.Errorf("open ledger: %w: %w", ErrPage, err)
	}
	return nil
}

// FD is the file to pass to other processes.
func (p *Page) FD() int { return p.fd }

// Close unmaps the page. No GPU or Account of it may be used any more.
func (p *Page) Close() {
	_ = unix.Munmap(p.mem)
	unix.Close(p.fd)
}

// SetBound bounds what the VM may have of each GPU; 0 is no bound. What it has stays, even above
// it.
func (p *Page) SetBound(bytes uint64) { wordAt(p.mem, boundAt).Store(bytes) }

// Bound is what the page says that the VM may have; 0 is no bound.
func (p *Page) Bound() uint64 { return wordAt(p.mem, boundAt).Load() }

// SetRoom says how much the VM may have on each GPU for now, as other VMs' memory is there; 0: all
// that its bound allows. What it has stays, even above it.
func (p *Page) SetRoom(bytes uint64) { wordAt(p.mem, roomAt).Store(bytes) }

// Room is what SetRoom last set.
func (p *Page) Room() uint64 { return wordAt(p.mem, roomAt).Load() }

// SetTotal says how much memory the only GPU has.
func (p *Page) SetTotal(bytes uint64) { wordAt(p.mem, totalAt).Store(bytes) }

// Total is what SetTotal last set; 0: nothing, or there are several GPUs.
func (p *Page) Total() uint64 { return wordAt(p.mem, totalAt).Load() }

// SetBusy says for what part of the last second the VM had its GPUs, in percent.
func (p *Page) SetBusy(percent int) { wordAt(p.mem, busyAt).Store(1 + uint64(percent)) }

// Busy is what SetBusy last set.
func (p *Page) Busy() (percent int, known bool) {
	n := wordAt(p.mem, busyAt).Load()
	return int(min(n-1, 100)), n != 0
}

// Holder is the first guest process with memory of a GPU, from an entry on.
func (p *Page) Holder(id uint64, from int) (entry int, h Holding, ok bool) {
	for _, g := range p.Known() {
		if g.ID() != id {
			continue
		}
		for entry = max(from, 0); entry < Workers; entry++ {
			if h = g.Holding(entry); h.PID > 0 && h.Sum() != 0 {
				return entry, h, true
			}
		}
	}
	return 0, Holding{}, false
}

// GPU returns the section of a GPU, by its id: the first free one if there is none yet. It is nil
// if all are taken, which happens only if a process lies.
func (p *Page) GPU(id uint64) *GPU {
	for _, g := range p.sections {
		if g.id.Load() == id || g.id.CompareAndSwap(0, id) || g.id.Load() == id {
			return g
		}
	}
	return nil
}

// Known are the GPUs that have a section.
func (p *Page) Known() []*GPU {
	var list []*GPU
	for _, g := range p.sections {
		if g.id.Load() != 0 {
			list = append(list, g)
		}
	}
	return list
}

// ID is the id of a GPU with that UUID. It is never 0.
func ID(uuid [16]byte) uint64 {
	id := binary.LittleEndian.Uint64(uuid[:8]) ^ binary.LittleEndian.Uint64(uuid[8:])
	return max(id, 1)
}
