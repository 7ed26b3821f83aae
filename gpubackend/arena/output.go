// SPDX-License-Identifier: Apache-2.0

package arena

import "github.com/paracuda/paracuda/gpubackend/wire"

// Print appends text for the guest's file fd to the output ring. What doesn't fit is dropped and
// counted.
func (a *Arena) Print(fd uint32, text []byte) {
	for len(text) > 0 {
		n := min(len(text), wire.OutputBytes/4)
		if !a.record(fd, text[:n]) {
			a.dropped += uint64(len(text))
			return
		}
		text = text[n:]
	}
}

// Dropped is the number of bytes of text that found no room.
func (a *Arena) Dropped() uint64 { return a.dropped }

func (a *Arena) record(fd uint32, text []byte) bool {
	size := uint32(wire.OutputRecordSize + (len(text)+7)&^7)
	used := a.output - a.load(wire.ArenaHeaderOutputTailOffset)
	if used > wire.OutputBytes || wire.OutputBytes-used < size {
		return false
	}
	var head [wire.OutputRecordSize]byte
	r := wire.OutputRecord{Fd: fd, Bytes: uint32(len(text))}
	r.Encode(head[:])
	a.ringWrite(a.output, head[:])
	a.ringWrite(a.output+wire.OutputRecordSize, text)
	a.output += size
	a.store(wire.ArenaHeaderOutputHeadOffset, a.output)
	return true
}

// ringWrite copies p to the output ring at a position, wrapping around its end if need be.
func (a *Arena) ringWrite(pos uint32, p []byte) {
	ring := a.mem[wire.Output : wire.Output+wire.OutputBytes]
	n := copy(ring[pos%wire.OutputBytes:], p)
	copy(ring, p[n:])
}
