// SPDX-License-Identifier: Apache-2.0

// Package command reads those commands of a guest that have more than one word for each parameter,
// and the records that travel in buffers. gpubackend/api/commands.def describes them
// (docs/commands.md).
//
// The guest may write anything. A decoder takes a copy of a command's words, checks every bound
// that the description names, and refuses the whole command if one fails: what Decode has read then
// must not be used. It allocates nothing and knows no worker: handles are the guest's own numbers,
// which the caller looks up. Tails and what buffers refer to lie in memory that the guest may
// change at any time: the caller copies what it checks.
package command

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Words are the words of an answer, as a slot has them.
type Words = [(wire.SlotBytes - wire.SlotWordOffset) / 8]uint64

// Layout is what a dispatcher must know of a command.
type Layout struct {
	Name      string // symbol of the function, or name of the op
	Words     int    // before the tails
	NoContext bool   // needs no current context
}

// Buffer is a buffer argument: two words. One of kind wire.BufferNone has no bytes.
type Buffer struct {
	Kind  uint8 // of enum buffer in wire.def
	Value uint64
	Bytes uint64
}

// MapID is the number of the chain to which a MAP reference refers.
func (r Buffer) MapID() uint32 { return uint32(r.Value >> 32) }

// MapOffset is where in the chain's memory such a buffer begins.
func (r Buffer) MapOffset() uint64 { return r.Value & 0xffffffff }

const valueBits = 56

// NewBuffer reads a buffer argument.
func NewBuffer(reference, bytes uint64) Buffer {
	r := Buffer{uint8(reference >> valueBits), reference & (1<<valueBits - 1), bytes}
	if r.Kind == wire.BufferNone {
		r.Bytes = 0
	}
	return r
}

func (r Buffer) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Kind)<<valueBits|r.Value)
	return binary.LittleEndian.AppendUint64(b, r.Bytes)
}

// Tag is the first word of a record. It says of what kind the record is.
func Tag(b []byte) (tag uint64, ok bool) {
	if len(b) < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}

// AppendTag writes such a word.
func AppendTag(b []byte, tag uint64) []byte { return binary.LittleEndian.AppendUint64(b, tag) }

// cut takes a tail of n bytes. What follows it begins at a multiple of 8.
func cut(b []byte, n uint64) (tail, rest []byte, ok bool) {
	if n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n:n], b[min((n+7)&^7, uint64(len(b))):], true
}

// pad appends zeros up to a multiple of 8.
func pad(b []byte) []byte {
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}
