// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// mapped finds the mapping that a reference names and checks the range.
func (w *Worker) mapped(r call.Reference, write bool) (*mapping, gpubackend.Result) {
	m := w.findMap(r.MapID())
	if m == nil || r.MapOffset() > m.bytes || r.Bytes > m.bytes-r.MapOffset() {
		return nil, gpubackend.InvalidValue
	}
	if write && m.flags&wire.MapFlagWrite == 0 {
		return nil, gpubackend.InvalidValue
	}
	return m, gpubackend.Success
}

// giveUnused returns the mappings for one command that an erroneous command names, and nothing uses: what refused it
// may have been ahead of them. Any word that looks like a reference is taken for one, as no map is another process's.
func (w *Worker) giveUnused(c *call.Call, result gpubackend.Result) {
	if result == gpubackend.Success || result == gpubackend.NotReady {
		return
	}
	for _, word := range c.Command.Words[:c.Command.N] {
		if uint8(word>>56) != wire.BufferMap {
			continue
		}
		if m := w.findMap(call.ReferenceOf(word, 0).MapID()); m != nil && m.users == 0 && m.flags&wire.MapFlagOneshot != 0 {
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

// mappedBytes is what a reference names.
type mappedBytes struct {
	w *Worker
	m *mapping
	r call.Reference
}

// pages finds what a reference of a call names.
func (w *Worker) pages(r call.Reference, write bool) (call.Pages, gpubackend.Result) {
	m, result := w.mapped(r, write)
	if result != gpubackend.Success {
		return nil, result
	}
	return mappedBytes{w, m, r}, gpubackend.Success
}

// Read copies all of it: for arguments, not for payloads.
func (p mappedBytes) Read(b []byte) gpubackend.Result {
	p.m.users++
	defer p.w.release(p.m)
	at := uint64(0)
	for _, run := range p.m.slice(nil, p.r.MapOffset(), p.r.Bytes) {
		if err := p.w.mem.Read(b[at:at+run.Bytes], run.Address); err != nil {
			return gpubackend.InvalidValue
		}
		at += run.Bytes
	}
	return gpubackend.Success
}

// Write copies an answer there.
func (p mappedBytes) Write(b []byte) {
	p.m.users++
	defer p.w.release(p.m)
	at := uint64(0)
	for _, run := range p.m.slice(nil, p.r.MapOffset(), p.r.Bytes) {
		if err := p.w.mem.Write(b[at:at+run.Bytes], run.Address); err != nil {
			p.w.complain(err, "write an answer")
			return
		}
		at += run.Bytes
	}
}
