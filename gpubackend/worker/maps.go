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
