// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"encoding/binary"
	"runtime/debug"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend/memword"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

// vouchers are where the guest's driver vouches for the pages that may be copied for a worker.
// Where they are comes from the driver, through the device process. They are memory of the guest's
// kernel: each word is copied once, and checked before it is used.
type vouchers struct {
	root    uint64 // guest-physical address; 0: this driver doesn't vouch for pages
	channel uint32
}

// vouchedUse is a request's use of the pages that a voucher is for. The driver doesn't unpin them
// before it ends.
type vouchedUse struct {
	state   []byte // of the voucher; nil: none
	address uint64 // of that
	voucher wire.ChainHeader
}

// maxVouchers is how many a channel can have.
const maxVouchers = uint32(len(wire.Exposed{}.Headers)) * wire.DirectoryPages *
	wire.HeadersPerPage

// oneUse is what a use adds to the state of a voucher.
const oneUse = 2

// begin begins a use of voucher number n.
func (v vouchers) begin(m *memory, n uint32) (u vouchedUse, s status) {
	s = statusVoucher
	if v.channel >= wire.MaxChannels || n == 0 || n > maxVouchers {
		return vouchedUse{}, s
	}
	defer endGuard(debug.SetPanicOnFault(true), &s)
	at := v.find(m, uint64(n-1))
	b := m.at(at, wire.ChainHeaderSize)
	if at == 0 || at%wire.ChainHeaderSize != 0 || b == nil {
		return vouchedUse{}, s
	}
	state := b[wire.ChainHeaderStateOffset:][:4]
	if !beginUse(memword.Of32(state)) {
		return vouchedUse{}, s
	}
	u = vouchedUse{state: state, address: at + wire.ChainHeaderStateOffset}
	var raw [wire.ChainHeaderSize]byte
	copy(raw[:], b)
	u.voucher.Decode(raw[:])
	return u, statusDone
}

// find is the address of the channel's header n, from 0. 0: there is none.
func (v vouchers) find(m *memory, n uint64) uint64 {
	page := n / wire.HeadersPerPage
	exposed := m.entry(v.root, uint64(v.channel))
	if exposed == 0 {
		return 0
	}
	directory := m.entry(exposed+wire.ExposedHeadersOffset, page/wire.DirectoryPages)
	headers := m.entry(directory, page%wire.DirectoryPages)
	if headers == 0 {
		return 0
	}
	return headers + n%wire.HeadersPerPage*wire.ChainHeaderSize
}

// beginUse counts a use, if the driver vouches for the pages.
func beginUse(state *uint32) bool {
	for {
		old := atomic.LoadUint32(state)
		if old&wire.VoucherStateValid == 0 || old+oneUse < old {
			return false
		}
		if atomic.CompareAndSwapUint32(state, old, old+oneUse) {
			return true
		}
	}
}

// end ends a use, and marks what it has written to.
func (u *vouchedUse) end(dirty *dirtylog.Switch) {
	if u.state == nil {
		return
	}
	s := statusDone // a voucher that has vanished counts nothing
	func() {
		defer endGuard(debug.SetPanicOnFault(true), &s)
		atomic.AddUint32(memword.Of32(u.state), ^uint32(oneUse-1))
	}()
	if dirty.Log() != nil {
		dirty.Mark(u.address, uint64(len(u.state)))
	}
	u.state = nil
}

// runs appends the runs that a request's places are, of which there are at most maxRuns.
func (u *vouchedUse) runs(m *memory, q *request, dst []wire.Run) (runs []wire.Run, s status) {
	s = statusVoucher
	defer endGuard(debug.SetPanicOnFault(true), &s)
	h := &u.voucher
	if h.Type != wire.ChainMap || h.Runs > wire.RunsPerMap ||
		!q.toDevice && h.Flags&wire.MapFlagWrite == 0 {
		return dst, s
	}
	l := list{m, h.List, h.Runs}
	for _, place := range q.runs {
		if dst = l.place(dst, place); dst == nil {
			return nil, s
		}
	}
	return dst, statusDone
}

// list is the list of a map's runs in guest memory.
type list struct {
	memory  *memory
	address uint64 // of the list, or of a table of lists
	count   uint32 // of runs
}

// place appends the runs of a place. nil: it isn't in the map, or there are too many.
func (l *list) place(dst []wire.Run, place wire.Run) []wire.Run {
	i, offset := uint32(place.Address>>placeShift), place.Address&(1<<placeShift-1)
	for left := place.Bytes; left > 0; {
		part := l.from(i)
		if part == nil {
			return nil
		}
		i += uint32(len(part) / wire.RunSize)
		for ; len(part) > 0 && left > 0; part = part[wire.RunSize:] {
			var run wire.Run
			run.Decode(part)
			if offset >= run.Bytes || len(dst) == maxRuns {
				return nil
			}
			n := min(run.Bytes-offset, left)
			dst = append(dst, wire.Run{Address: run.Address + offset, Bytes: n})
			left, offset = left-n, 0
		}
	}
	return dst
}

// from is a part of the list in guest memory, from run number i on; nil: there is no such run.
func (l *list) from(i uint32) []byte {
	if i >= l.count {
		return nil
	}
	n, address := i/wire.RunsPerList, l.address
	if l.count > wire.RunsPerList {
		address = l.memory.entry(address, uint64(n))
	}
	there := min(l.count-n*wire.RunsPerList, wire.RunsPerList)
	part := l.memory.at(address, uint64(there)*wire.RunSize)
	if part == nil {
		return nil
	}
	return part[i%wire.RunsPerList*wire.RunSize:]
}

// at returns a range of guest memory that lies in one region; nil: there is none such.
func (m *memory) at(guest, n uint64) []byte {
	i := m.find(guest)
	if i < 0 {
		return nil
	}
	r := m.regions[i]
	offset := guest - r.key.guest
	if n > r.key.size-offset {
		return nil
	}
	return r.host[offset : offset+n : offset+n]
}

// entry reads number i of a table of addresses. 0: there is none.
func (m *memory) entry(table, i uint64) uint64 {
	const bytes = 8
	if table == 0 {
		return 0
	}
	b := m.at(table+i*bytes, bytes)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}
