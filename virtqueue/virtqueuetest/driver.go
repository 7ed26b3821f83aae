// SPDX-License-Identifier: Apache-2.0

package virtqueuetest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
)

// Flags of a descriptor.
const (
	Next     = 1
	Write    = 2
	Indirect = 4
)

// Flags of the rings.
const (
	NoInterrupt = 1 // of the avail ring
	NoNotify    = 1 // of the used ring
)

// Desc is a descriptor.
type Desc struct {
	Addr  uint64
	Len   uint32
	Flags uint16
	Next  uint16
}

// Bytes returns the descriptor as it lies in memory.
func (d Desc) Bytes() []byte {
	b := binary.LittleEndian.AppendUint64(nil, d.Addr)
	b = binary.LittleEndian.AppendUint32(b, d.Len)
	b = binary.LittleEndian.AppendUint16(b, d.Flags)
	return binary.LittleEndian.AppendUint16(b, d.Next)
}

// Driver is the guest's side of a split queue.
type Driver struct {
	Size              uint16
	EventIdx          bool
	Desc, Avail, Used uint64 // guest-physical addresses of the rings

	g         *Guest
	free      []uint16            // descriptors not in use
	owned     map[uint16][]uint16 // head: descriptors of the chain that Add built
	availIdx  uint16
	usedIdx   uint16
	kickedIdx uint16 // avail index when NeedsKick last decided
	fence     uint32
}

// Clone is a driver with the same rings, in the same state: the guest may be put back to that.
func (d *Driver) Clone() *Driver {
	c := *d
	c.free, c.owned = slices.Clone(d.free), maps.Clone(d.owned)
	return &c
}

// NewDriver lays out rings in the guest's memory.
func NewDriver(g *Guest, size uint16, eventIdx bool) *Driver {
	n := uint64(size)
	d := &Driver{
		Size: size, EventIdx: eventIdx, g: g,
		Desc:  g.Alloc(16*n, 16),
		Avail: g.Alloc(6+2*n, 4),
		Used:  g.Alloc(6+8*n, 4),
		owned: map[uint16][]uint16{},
	}
	for i := range size {
		d.free = append(d.free, size-1-i)
	}
	return d
}

// StartAt makes both indices begin at a value, as after a resume. Call it before any other.
func (d *Driver) StartAt(idx uint16) {
	d.availIdx, d.usedIdx, d.kickedIdx = idx, idx, idx
	d.SetAvailIdx(idx)
	d.word(d.Used+2, idx)
}

// SetDesc writes entry i of the descriptor table, whatever it says.
func (d *Driver) SetDesc(i uint16, e Desc) { d.g.Write(d.Desc+16*uint64(i), e.Bytes()) }

// SetAvailIdx writes the avail index, whatever it says.
func (d *Driver) SetAvailIdx(idx uint16) {
	d.Fence()
	d.word(d.Avail+2, idx)
}

// SetAvailFlags writes the flags of the avail ring.
func (d *Driver) SetAvailFlags(flags uint16) { d.word(d.Avail, flags) }

// SetUsedEvent asks for an interrupt when the used index passes a value.
func (d *Driver) SetUsedEvent(idx uint16) { d.word(d.Avail+4+2*uint64(d.Size), idx) }

// Offer makes a head available, whatever it is.
func (d *Driver) Offer(head uint16) {
	d.word(d.Avail+4+2*uint64(d.availIdx%d.Size), head)
	d.availIdx++
	d.SetAvailIdx(d.availIdx)
}

// AvailIdx returns the avail index that the driver has reached.
func (d *Driver) AvailIdx() uint16 { return d.availIdx }

// Add builds a chain of the given descriptors, their Next fields and flags filled in, and makes it
// available.
func (d *Driver) Add(chain ...Desc) (head uint16, err error) {
	if len(chain) == 0 || len(chain) > len(d.free) {
		return 0, fmt.Errorf("add %d descriptors: %d are free", len(chain), len(d.free))
	}
	at := len(d.free) - len(chain)
	ids := append([]uint16(nil), d.free[at:]...)
	d.free = d.free[:at]
	for i, e := range chain {
		if i+1 < len(chain) {
			e.Flags |= Next
			e.Next = ids[i+1]
		}
		d.SetDesc(ids[i], e)
	}
	d.owned[ids[0]] = ids
	d.Offer(ids[0])
	return ids[0], nil
}

// Reap takes the next entry of the used ring.
func (d *Driver) Reap() (id, written uint32, ok bool) {
	if d.loadWord(d.Used+2) == d.usedIdx {
		return 0, 0, false
	}
	e := d.g.Read(d.Used+4+8*uint64(d.usedIdx%d.Size), 8)
	d.usedIdx++
	id, written = binary.LittleEndian.Uint32(e), binary.LittleEndian.Uint32(e[4:])
	d.release(uint16(id))
	return id, written, true
}

// release frees the descriptors of a chain that Add built.
func (d *Driver) release(head uint16) {
	d.free = append(d.free, d.owned[head]...)
	delete(d.owned, head)
}

// Fence orders what the driver wrote before what it reads next.
func (d *Driver) Fence() { atomic.AddUint32(&d.fence, 1) }

// UsedIdx returns the device's used index.
func (d *Driver) UsedIdx() uint16 { return d.loadWord(d.Used + 2) }

// NeedsKick reports whether the device wants a kick for what was offered since NeedsKick was last
// called.
func (d *Driver) NeedsKick() bool {
	d.Fence()
	old := d.kickedIdx
	d.kickedIdx = d.availIdx
	if !d.EventIdx {
		return d.loadWord(d.Used)&NoNotify == 0 && old != d.availIdx
	}
	return Passed(d.loadWord(d.Used+4+8*uint64(d.Size)), old, d.availIdx)
}

// Passed reports whether an index that moved one by one from old to new stepped over event.
func Passed(event, old, new uint16) bool {
	for i := old; i != new; i++ {
		if i == event {
			return true
		}
	}
	return false
}

// word stores a 16-bit word in one piece.
func (d *Driver) word(addr uint64, v uint16) {
	b := [2]byte{}
	binary.LittleEndian.PutUint16(b[:], v)
	d.g.Write(addr, b[:])
}

// loadWord loads a 16-bit word in one piece.
func (d *Driver) loadWord(addr uint64) uint16 {
	return binary.LittleEndian.Uint16(d.g.Read(addr, 2))
}
