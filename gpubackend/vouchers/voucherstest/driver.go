// SPDX-License-Identifier: Apache-2.0

// Package voucherstest plays a guest's driver that says which pages are whose. Only tests use it.
package voucherstest

import (
	"encoding/binary"
	"sync/atomic"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/memword"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Driver has the guest's memory, the first part of which is its own.
type Driver struct {
	Mem  []byte // from Base on
	Base uint64
	Root uint64

	tb        testing.TB
	next, end uint64                   // free memory
	own       [wire.MaxChannels]uint64 // exposed pages of a channel
}

const pageSize = 4096

// New is for a guest with this memory, of which the driver takes so many bytes for itself.
func New(tb testing.TB, mem []byte, base, bytes uint64) *Driver {
	d := &Driver{Mem: mem, Base: base, tb: tb, next: base, end: base + bytes}
	d.Root = d.Page()
	return d
}

// Page is a new page of the driver's.
func (d *Driver) Page() uint64 {
	d.next += pageSize
	if d.next > d.end {
		d.tb.Fatal("the driver has no memory left")
	}
	return d.next - pageSize
}

// At is memory at an address, up to its end.
func (d *Driver) At(address uint64) []byte { return d.Mem[address-d.Base:] }

// Put writes a word.
func (d *Driver) Put(address, value uint64) {
	binary.LittleEndian.PutUint64(d.At(address), value)
}

// Get reads one.
func (d *Driver) Get(address uint64) uint64 { return binary.LittleEndian.Uint64(d.At(address)) }

// Exposed is the page at which all of a channel begins.
func (d *Driver) Exposed(channel int) uint64 {
	if d.own[channel] == 0 {
		d.own[channel] = d.Page()
		d.Put(d.Root+8*uint64(channel), d.own[channel])
	}
	return d.own[channel]
}

// Records is a channel's page of records.
func (d *Driver) Records(channel int) uint64 {
	return d.Followed(d.Exposed(channel) + wire.ExposedRecordsOffset)
}

// State is that of a channel's header number n.
func (d *Driver) State(channel int, n uint32) *uint32 {
	return memword.Of32(d.At(d.Header(channel, n) + wire.ChainHeaderStateOffset))
}

// Header is where a channel's header number n is, for which there is a page then.
func (d *Driver) Header(channel int, n uint32) uint64 {
	page, of := uint64(n-1)/wire.HeadersPerPage, uint64(n-1)%wire.HeadersPerPage
	directory := d.Followed(d.Directory(channel) + 8*(page/wire.DirectoryPages))
	return d.Followed(directory+8*(page%wire.DirectoryPages)) + of*wire.ChainHeaderSize
}

// Directory is where the address of a channel's first directory of headers is.
func (d *Driver) Directory(channel int) uint64 {
	return d.Exposed(channel) + wire.ExposedHeadersOffset
}

// Followed is the page whose address is there. If there is none, it becomes one.
func (d *Driver) Followed(entry uint64) uint64 {
	if d.Get(entry) == 0 {
		d.Put(entry, d.Page())
	}
	return d.Get(entry)
}

// Vouch vouches for pages.
func (d *Driver) Vouch(channel int, n uint32, flags uint32, runs []wire.Run) {
	d.chain(channel, n, wire.ChainHeader{Type: wire.ChainMap, Id: n, Flags: flags}, runs)
	atomic.StoreUint32(d.State(channel, n), wire.VoucherStateValid)
}

// Arena makes these runs a channel's arena.
func (d *Driver) Arena(channel int, n uint32, runs []wire.Run) {
	d.chain(channel, n, wire.ChainHeader{Type: wire.ChainArena}, runs)
	d.Put(d.Exposed(channel)+wire.ExposedArenaOffset, d.Header(channel, n))
}

func (d *Driver) chain(channel int, n uint32, h wire.ChainHeader, runs []wire.Run) {
	h.Runs, h.Voucher, h.List = uint32(len(runs)), n, d.Page()
	many := len(runs) > wire.RunsPerList
	for i, list := 0, h.List; len(runs) > 0; i++ {
		if many {
			list = d.Page()
			d.Put(h.List+8*uint64(i), list)
		}
		some := runs[:min(len(runs), wire.RunsPerList)]
		runs = runs[len(some):]
		for j := range some {
			some[j].Encode(d.At(list + uint64(j)*wire.RunSize))
		}
	}
	h.Encode(d.At(d.Header(channel, n)))
}
