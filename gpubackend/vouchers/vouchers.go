// SPDX-License-Identifier: Apache-2.0

// Package vouchers reads what a guest's driver says of pages: which it exposes to a channel's
// worker, and for which it vouches, because its program has pinned them (docs/protocol.md). The
// mover copies no others, and the device process lets the worker map no others (reasons.go).
//
// # Who owns what
//
// What is read is memory of the guest's kernel. A Memory has it; who calls this package guards
// against its faults.
//
// # Who may lie
//
// The guest's kernel, about its own memory. Each word is copied once, and checked before it is
// used. Workers, in the numbers by which they name pages. They can't write to what is read here.
package vouchers

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Memory is a guest's.
type Memory interface {
	// At returns a range of it that lies in one region; nil: there is none such. To touch it may
	// fault.
	At(address, n uint64) []byte
}

// Exposure is where a driver says all this about a channel.
type Exposure struct {
	Root    uint64 // guest-physical address; 0: this driver says nothing
	Channel uint32
}

// mostHeaders is how many headers a channel can have.
const mostHeaders = uint32(len(wire.Exposed{}.Headers)) * wire.DirectoryPages *
	wire.HeadersPerPage

// exposed is the address of the page of that name. 0: there is none.
func (e Exposure) exposed(m Memory) uint64 {
	if e.Channel >= wire.MaxChannels {
		return 0
	}
	return entry(m, e.Root, uint64(e.Channel))
}

// Header finds the channel's header number n, from 1, and its address. nil: there is none.
func (e Exposure) Header(m Memory, n uint32) (b []byte, address uint64) {
	if n == 0 || n > mostHeaders {
		return nil, 0
	}
	exposed := e.exposed(m)
	if exposed == 0 {
		return nil, 0
	}
	i := uint64(n - 1)
	page := i / wire.HeadersPerPage
	directory := entry(m, exposed+wire.ExposedHeadersOffset, page/wire.DirectoryPages)
	headers := entry(m, directory, page%wire.DirectoryPages)
	if headers == 0 {
		return nil, 0
	}
	return headerAt(m, headers+i%wire.HeadersPerPage*wire.ChainHeaderSize)
}

func headerAt(m Memory, address uint64) (b []byte, _ uint64) {
	if address == 0 || address%wire.ChainHeaderSize != 0 {
		return nil, 0
	}
	return m.At(address, wire.ChainHeaderSize), address
}

// List is the list of a chain's runs in guest memory.
type List struct {
	memory  Memory
	address uint64 // of the list, or of a table of lists
	count   uint32 // of runs
}

// ListOf is that of a header. Without runs, or with too many, there is none.
func ListOf(m Memory, h *wire.ChainHeader) (l List, is bool) {
	return List{m, h.List, h.Runs}, h.Runs > 0 && h.Runs <= wire.RunsPerMap
}

// From is a part of the list in guest memory, from run number i on; nil: there is no such run.
func (l *List) From(i uint32) []byte {
	if i >= l.count {
		return nil
	}
	address, bytes := l.part(i / wire.RunsPerList)
	b := l.memory.At(address, bytes)
	if b == nil {
		return nil
	}
	return b[i%wire.RunsPerList*wire.RunSize:]
}

// part is where list number n is, one of those that there are.
func (l *List) part(n uint32) (address, bytes uint64) {
	address = l.address
	if l.count > wire.RunsPerList {
		address = entry(l.memory, address, uint64(n))
	}
	return address, uint64(min(l.count-n*wire.RunsPerList, wire.RunsPerList)) * wire.RunSize
}

// parts is how many lists there are.
func (l *List) parts() uint32 { return (l.count + wire.RunsPerList - 1) / wire.RunsPerList }

// entry reads number i of a table of addresses. 0: there is none.
func entry(m Memory, table, i uint64) uint64 {
	const bytes = 8
	if table == 0 {
		return 0
	}
	b := m.At(table+i*bytes, bytes)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}
