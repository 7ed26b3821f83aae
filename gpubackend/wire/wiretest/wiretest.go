// SPDX-License-Identifier: Apache-2.0

// Package wiretest lays out what a guest's driver writes for a worker, for tests that play one.
package wiretest

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Chain writes a chain's header to the guest's memory, and behind it the lists of its runs. If
// there are too many for one list, their table lies between. It says how many bytes that took.
// A header that says how many runs it has says so, whatever there is.
func Chain(
	write func(at uint64, b []byte), at uint64, h wire.ChainHeader, runs ...wire.Run,
) uint64 {
	if h.Runs == 0 {
		h.Runs = uint32(len(runs))
	}
	h.List = at + wire.ChainHeaderSize
	lists := h.List
	if len(runs) > wire.RunsPerList {
		n := (len(runs) + wire.RunsPerList - 1) / wire.RunsPerList
		lists += uint64(8 * n)
		for i := range uint64(n) {
			write(h.List+8*i, binary.LittleEndian.AppendUint64(nil,
				lists+i*wire.RunsPerList*wire.RunSize))
		}
	}
	b := make([]byte, wire.RunSize*len(runs))
	for i := range runs {
		runs[i].Encode(b[wire.RunSize*i:])
	}
	write(lists, b)
	b = append(b[:0], make([]byte, wire.ChainHeaderSize)...)
	h.Encode(b)
	write(at, b)
	return lists - at + uint64(wire.RunSize*len(runs))
}
