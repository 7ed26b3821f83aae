// SPDX-License-Identifier: Apache-2.0

package takenover

import (
	"bytes"
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Vouchers is where a guest's driver vouches for pages, in the guest's memory. The first of two
// channels does the deeds.
const (
	Vouchers  = 0x10000
	pages0    = 0x20000 // of the first channel's program
	pages1    = 0x30000 // of the other one's
	kernels   = 0x40000 // of nobody's program
	vouched   = 1       // for two pages, not next to each other
	toRead    = 2       // for pages that were pinned to be read
	over      = 3       // for pages that were unpinned
	others    = 9       // of the other channel
	noVoucher = 3       // the mover's answer
)

// VouchersEnd is behind the memory that such a driver and these programs have: no deed changes it.
const VouchersEnd = kernels + 0x10000

// Vouch writes the vouchers of such a driver: write writes to the guest's memory.
func Vouch(write func(address uint64, b []byte)) {
	free := uint64(Vouchers + 0x1000)
	page := func() uint64 {
		free += 0x1000
		return free - 0x1000
	}
	word := func(address, value uint64) {
		write(address, binary.LittleEndian.AppendUint64(nil, value))
	}
	var headers [2]uint64
	for channel := range headers {
		exposed, directory := page(), page()
		headers[channel] = page()
		word(Vouchers+8*uint64(channel), exposed)
		word(exposed+wire.ExposedHeadersOffset, directory)
		word(directory, headers[channel])
	}
	word(Vouchers+0x1000+wire.ExposedRecordsOffset, Report)
	write(pages0+0x2000+100, []byte("the program's"))
	vouch := func(channel int, n uint32, state, flags uint32, address uint64) {
		h := wire.ChainHeader{Type: wire.ChainMap, Id: n, Runs: 2, Flags: flags, Voucher: n,
			State: state, List: page()}
		for i := range uint64(2) {
			word(h.List+i*wire.RunSize, address+i*0x2000)
			word(h.List+i*wire.RunSize+8, 0x1000)
		}
		b := make([]byte, wire.ChainHeaderSize)
		h.Encode(b)
		write(headers[channel]+uint64(n-1)*wire.ChainHeaderSize, b)
	}
	vouch(0, vouched, wire.VoucherStateValid, wire.MapFlagWrite, pages0)
	vouch(0, toRead, wire.VoucherStateValid, 0, pages0)
	vouch(0, over, 0, wire.MapFlagWrite, pages0)
	vouch(1, others, wire.VoucherStateValid, wire.MapFlagWrite, pages1)
}

// place is the place of bytes at an offset in a run of a map.
func place(number, offset, n uint64) run { return run{number<<48 | offset, n} }

// vouching is a deed with a connection to the mover, of a worker whose driver vouches for pages.
func vouching(name string, do func(w *worker, m *mover) string) Deed {
	d := copying("with vouchers: "+name, do)
	d.Vouchers = true
	return d
}

// unvouched asks for a copy for which the driver doesn't vouch: nothing may be copied.
func unvouched(name string, flags, voucher uint32, places ...run) Deed {
	return vouching(name, func(w *worker, m *mover) string {
		mark := bytes.Repeat([]byte{0x5a}, lentBytes)
		copy(m.lent, mark)
		m.voucher = voucher
		m.publish(m.record(flags, 1, 0, places...))
		if s := m.status(); s != noVoucher {
			return "the mover copied what nobody vouches for"
		}
		if !bytes.Equal(m.lent, mark) {
			return "the mover wrote"
		}
		return ""
	})
}

// withVouchers are what a worker asks of the mover whose guest's driver vouches for pages.
func withVouchers() []Deed {
	return []Deed{
		vouching("what it may ask for", func(w *worker, m *mover) string {
			m.voucher = vouched
			m.publish(m.record(toLent, 1, 0, place(1, 100, 64)))
			if s := m.status(); s != 0 || !bytes.HasPrefix(m.lent, []byte("the program's")) {
				return "nothing was copied: the other deeds prove nothing"
			}
			return ""
		}),
		unvouched("its kernel's memory by its address", toLent, 0, run{kernels, 4096}),
		unvouched("to its kernel's memory by its address", 0, 0, run{kernels, 4096}),
		unvouched("its own pages by their address", toLent, 0, run{pages0, 4096}),
		unvouched("pages that nobody has pinned", toLent, 4, place(0, 0, 4096)),
		unvouched("pages that were unpinned", toLent, over, place(0, 0, 4096)),
		unvouched("to pages that were unpinned", 0, over, place(0, 0, 4096)),
		unvouched("pages of another program", toLent, others, place(0, 0, 4096)),
		unvouched("to pages that may only be read", 0, toRead, place(0, 0, 4096)),
		unvouched("a page between those that are pinned", toLent, vouched, place(0, 0x1000, 4096)),
		unvouched("more than is pinned", toLent, vouched, place(0, 0, 0x2001)),
		unvouched("far behind what is pinned", toLent, vouched, place(0, 1<<48-4096, 4096)),
		unvouched("a run that isn't there", 0, vouched, place(2, 0, 64)),
		unvouched("a run far away", 0, vouched, place(1<<16-1, 0, 64)),
		unvouched("the last number", toLent, 1<<32-1, place(0, 0, 64)),
		unvouched("a number without a page", toLent, 100_000, place(0, 0, 64)),
	}
}
