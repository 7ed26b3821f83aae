// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// mapped finds the mapping that a reference names and checks the range.
func (w *Worker) mapped(r reference, write bool) (*mapping, gpubackend.Result) {
	m := w.findMap(r.mapID())
	if m == nil || r.mapOffset() > m.bytes || r.bytes > m.bytes-r.mapOffset() {
		return nil, gpubackend.InvalidValue
	}
	if write && m.flags&wire.MapFlagWrite == 0 {
		return nil, gpubackend.InvalidValue
	}
	return m, gpubackend.Success
}

// giveUnused returns the mappings for one command that an erroneous command names, and nothing uses: what refused it
// may have been ahead of them. Any word that looks like a reference is taken for one, as no map is another process's.
func (w *Worker) giveUnused(c *call, result gpubackend.Result) {
	if result == gpubackend.Success || result == gpubackend.NotReady {
		return
	}
	for _, word := range c.command.Words[:c.command.N] {
		if uint8(word>>56) != wire.BufferMap {
			continue
		}
		if m := w.findMap(reference{value: word & (1<<56 - 1)}.mapID()); m != nil && m.users == 0 && m.flags&wire.MapFlagOneshot != 0 {
			w.giveMap(m)
		}
	}
}

// slice appends the runs that hold n bytes at an offset from the mapping's first byte. The caller has checked
// that they are there.
func (m *mapping) slice(dst []wire.Run, offset, n uint64) []wire.Run {
	offset += m.offset
	for _, r := range m.runs {
		if n == 0 {
			break
		}
		if offset >= r.Bytes {
			offset -= r.Bytes
			continue
		}
		piece := min(r.Bytes-offset, n)
		dst = append(dst, wire.Run{Address: r.Address + offset, Bytes: piece})
		offset, n = 0, n-piece
	}
	return dst
}

// readMap copies what a reference names: for arguments, not for payloads.
func (w *Worker) readMap(r reference) ([]byte, gpubackend.Result) {
	m, result := w.mapped(r, false)
	if result != gpubackend.Success {
		return nil, result
	}
	if result := w.takeBuffer(r.bytes); result != gpubackend.Success {
		return nil, result
	}
	m.users++
	defer w.release(m)
	w.state.Count(handover.BytesCopied, r.bytes)
	b := make([]byte, r.bytes)
	at := uint64(0)
	for _, run := range m.slice(nil, r.mapOffset(), r.bytes) {
		if err := w.mem.Read(b[at:at+run.Bytes], run.Address); err != nil {
			return nil, gpubackend.InvalidValue
		}
		at += run.Bytes
	}
	return b, gpubackend.Success
}

// writeMap copies an answer to where a reference says.
func (w *Worker) writeMap(m *mapping, r reference, b []byte) {
	m.users++
	defer w.release(m)
	w.state.Count(handover.BytesCopied, r.bytes)
	at := uint64(0)
	for _, run := range m.slice(nil, r.mapOffset(), r.bytes) {
		if err := w.mem.Write(b[at:at+run.Bytes], run.Address); err != nil {
			w.complain(err, "write an answer")
			return
		}
		at += run.Bytes
	}
}
