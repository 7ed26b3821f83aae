// SPDX-License-Identifier: Apache-2.0

package vouchers

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Kind is what a worker maps.
type Kind uint8

// The kinds. All but rings and records are in chains, by number.
const (
	Rings   Kind = 1 + iota // of its queue, as the front end says
	Records                 // to which it writes
	Headers                 // a page of them
	Table                   // of a chain's lists
	Lists                   // one list of a chain's runs
	Arena                   // a run of the arena
	Pages                   // a run of a map
)

// Reason is by what right a worker maps a range. It says so with each call, and what it says is
// looked up in the guest's memory.
type Reason struct {
	Kind  Kind
	Chain uint32 // number of its header, for tables, lists and pages
	Index uint32 // of the list or run
}

const (
	chainBits = 24
	chainMask = 1<<chainBits - 1
)

// Right is the reason as calls of mmap have it.
func (x Reason) Right() guestmem.Right {
	return guestmem.Right(x.Index)<<32 | guestmem.Right(x.Kind)<<chainBits |
		guestmem.Right(x.Chain&chainMask)
}

// ReasonOf is the inverse, for any right. What comes of it names its kind only if there is one.
func ReasonOf(r guestmem.Right) Reason {
	return Reason{Kind(uint32(r) >> chainBits), uint32(r) & chainMask, uint32(r >> 32)}
}

// Rights are those by which a worker maps what it touches of its queue.
func Rights() guestmem.Rights {
	return guestmem.Rights{Read: Reason{Kind: Headers}.Right(),
		Write: Reason{Kind: Records}.Right(), Slice: Reason{Kind: Rings}.Right()}
}

// Why a reason gives no right.
var (
	ErrReason   = errors.New("the guest's driver doesn't say so")
	ErrReadOnly = errors.New("it may only be read")
)

// Allows asks has about each range of guest memory that a reason gives a right to, until it says
// yes. write says that the range is to be written. Of rings the driver says nothing.
func (e Exposure) Allows(m Memory, x Reason, write bool, has func(wire.Run) bool) error {
	ok, readOnly := false, false
	switch x.Kind {
	case Records:
		ok = e.records(m, has)
	case Headers:
		readOnly, ok = true, e.headers(m, has)
	case Table, Lists:
		readOnly, ok = true, e.lists(m, x, has)
	case Arena:
		ok = e.arena(m, x.Index, has)
	case Pages:
		ok, readOnly = e.pages(m, x, has)
	}
	switch {
	case !ok:
		return fmt.Errorf("reason %+v: %w", x, ErrReason)
	case write && readOnly:
		return fmt.Errorf("reason %+v: %w", x, ErrReadOnly)
	}
	return nil
}

const pageSize = 4096

func (e Exposure) records(m Memory, has func(wire.Run) bool) bool {
	exposed := e.exposed(m)
	if exposed == 0 {
		return false
	}
	page := entry(m, exposed+wire.ExposedRecordsOffset, 0)
	return page != 0 && page%pageSize == 0 && has(wire.Run{Address: page, Bytes: pageSize})
}

// headers looks for a page among all of them: who maps one knows nothing of what is in it.
func (e Exposure) headers(m Memory, has func(wire.Run) bool) bool {
	exposed := e.exposed(m)
	if exposed == 0 {
		return false
	}
	for i := range uint64(len(wire.Exposed{}.Headers)) {
		directory := entry(m, exposed+wire.ExposedHeadersOffset, i)
		for j := uint64(0); directory != 0 && j < wire.DirectoryPages; j++ {
			page := entry(m, directory, j)
			if page != 0 && page%pageSize == 0 && has(wire.Run{Address: page, Bytes: pageSize}) {
				return true
			}
		}
	}
	return false
}

// chain is a copy of a header of a map for whose pages the driver vouches now, or of the arena.
func (e Exposure) chain(m Memory, n uint32) (l List, h wire.ChainHeader, is bool) {
	b, address := e.Header(m, n)
	if b == nil {
		return l, h, false
	}
	decode(&h, b)
	switch {
	case h.Type == wire.ChainMap && h.State&wire.VoucherStateValid != 0:
	case h.Type == wire.ChainArena && address == e.arenas(m):
	default:
		return l, h, false
	}
	l, is = ListOf(m, &h)
	return l, h, is
}

// decode copies a header once.
func decode(h *wire.ChainHeader, b []byte) {
	var raw [wire.ChainHeaderSize]byte
	copy(raw[:], b)
	h.Decode(raw[:])
}

// arenas is the address of the arena's header. 0: there is none.
func (e Exposure) arenas(m Memory) uint64 {
	exposed := e.exposed(m)
	if exposed == 0 {
		return 0
	}
	return entry(m, exposed+wire.ExposedArenaOffset, 0)
}

func (e Exposure) lists(m Memory, x Reason, has func(wire.Run) bool) bool {
	l, _, is := e.chain(m, x.Chain)
	if !is {
		return false
	}
	var r wire.Run
	switch n := l.parts(); {
	case x.Kind == Lists && x.Index < n:
		r.Address, r.Bytes = l.part(x.Index)
	case x.Kind == Table && n > 1:
		r = wire.Run{Address: l.address, Bytes: 8 * uint64(n)}
	}
	return r.Address != 0 && has(r)
}

func (e Exposure) arena(m Memory, i uint32, has func(wire.Run) bool) bool {
	b, _ := headerAt(m, e.arenas(m))
	if b == nil {
		return false
	}
	var h wire.ChainHeader
	decode(&h, b)
	l, is := ListOf(m, &h)
	return is && h.Type == wire.ChainArena && l.run(i, has)
}

func (e Exposure) pages(m Memory, x Reason, has func(wire.Run) bool) (is, readOnly bool) {
	l, h, is := e.chain(m, x.Chain)
	return is && h.Type == wire.ChainMap && l.run(x.Index, has), h.Flags&wire.MapFlagWrite == 0
}

// run asks has about run number i.
func (l *List) run(i uint32, has func(wire.Run) bool) bool {
	b := l.From(i)
	if b == nil {
		return false
	}
	var raw [wire.RunSize]byte
	copy(raw[:], b)
	var r wire.Run
	r.Decode(raw[:])
	return has(r)
}
