// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"runtime/debug"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend/memword"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

// vouchedUse is a request's use of the pages that a voucher is for. The driver doesn't unpin them
// before it ends.
type vouchedUse struct {
	state   []byte // of the voucher; nil: none
	address uint64 // of that
	voucher wire.ChainHeader
}

// oneUse is what a use adds to the state of a voucher.
const oneUse = 2

// beginVouched begins a use of voucher number n of a channel. Vouchers are memory of the guest's
// kernel: where they are comes from its driver, through the device process.
func beginVouched(v vouchers.Exposure, m *memory, n uint32) (u vouchedUse, s status) {
	s = statusVoucher
	defer endGuard(debug.SetPanicOnFault(true), &s)
	b, at := v.Header(m, n)
	if b == nil {
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
	l, is := vouchers.ListOf(m, h)
	if !is || h.Type != wire.ChainMap || !q.toDevice && h.Flags&wire.MapFlagWrite == 0 {
		return dst, s
	}
	for _, place := range q.runs {
		if dst = appendPlace(dst, &l, place); dst == nil {
			return nil, s
		}
	}
	return dst, statusDone
}

// appendPlace appends the runs of a place in a list. nil: it isn't there, or there are too many.
func appendPlace(dst []wire.Run, l *vouchers.List, place wire.Run) []wire.Run {
	i, offset := uint32(place.Address>>placeShift), place.Address&(1<<placeShift-1)
	for left := place.Bytes; left > 0; {
		part := l.From(i)
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

// At implements vouchers.Memory.
func (m *memory) At(guest, n uint64) []byte {
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
