// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"fmt"
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// memRange is a range of valid device addresses.
type memRange struct {
	base, size uint64
	writable   bool
}

// memCache holds the ranges that a block's accesses hit last. It belongs to one
// goroutine.
type memCache struct {
	memory Memory
	// last is what the fast path looks at.
	last   memRange
	ranges [8]memRange
	next   int
	// own is memory of the launch itself.
	own memRange
}

// find makes last the range that holds n bytes at addr.
func (c *memCache) find(addr, n uint64) bool {
	if off := addr - c.own.base; off < c.own.size && c.own.size-off >= n {
		c.last = c.own
		return true
	}
	for _, r := range c.ranges {
		if off := addr - r.base; off < r.size && r.size-off >= n {
			c.last = r
			return true
		}
	}
	if c.memory == nil || addr>>decoded.WindowShift != 0 {
		return false
	}
	base, end, writable, ok := c.memory.Lookup(addr)
	if !ok || addr < base || addr >= end || end-addr < n {
		return false
	}
	c.last = memRange{base, end - base, writable}
	c.ranges[c.next] = c.last
	c.next = (c.next + 1) % len(c.ranges)
	return true
}

// addresses are where the lanes' accesses go in this process.
type addresses [lanes.Count]uintptr

// locate finds out where the accesses of in go, each of n bytes. It reports
// false after a fault.
func (w *warp) locate(in *decoded.Inst, m uint32, n uint64, write bool, p *addresses) bool {
	return w.locateAt(in.A, in.AW, in.Imm, in.Mem.Space, m, n, write, p)
}

// locateAt is locate for the address register a with offset off.
func (w *warp) locateAt(
	a uint32, aw lanes.Width, off uint64, space ptx.Space, m uint32, n uint64, write bool,
	p *addresses,
) bool {
	if w.locateFast(a, aw, off, space, m, n, write, p) {
		return true
	}
	var addr [lanes.Count]uint64
	w.Load(a, aw, &addr)
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes.Count - 1)
		at := addr[i] + off
		switch space {
		case ptx.Shared:
			at = at&0xffffffff | decoded.SharedWindow
		case ptx.Local:
			at = at&0xffffffff | decoded.LocalWindow
		case ptx.Param:
			at = at&0xffffffff | decoded.ParamWindow
		}
		if p[i] = w.resolve(at, i, n, write); p[i] == 0 {
			return false
		}
	}
	return true
}

// resolve turns a generic address into one of this process; 0 after a fault.
func (w *warp) resolve(at uint64, lane int, n uint64, write bool) uintptr {
	if at&(n-1) != 0 {
		w.failAt(lane, cudaabi.ErrorMisalignedAddress, "misaligned address %#x for %d bytes", at, n)
		return 0
	}
	off := at & (1<<decoded.WindowShift - 1)
	switch at >> decoded.WindowShift {
	case 0:
		c := w.cache
		if off := at - c.last.base; off >= c.last.size || c.last.size-off < n {
			if !c.find(at, n) {
				break
			}
		}
		if write && !c.last.writable {
			break
		}
		return uintptr(at)
	case decoded.SharedWindow >> decoded.WindowShift:
		if size := w.block.run.sharedSize; off < size && size-off >= n {
			return w.block.sharedBase + uintptr(off)
		}
	case decoded.LocalWindow >> decoded.WindowShift:
		if size := w.localStride; off < size && size-off >= n {
			return w.localBase + uintptr(lane)*uintptr(size) + uintptr(off)
		}
	case decoded.ParamWindow >> decoded.WindowShift:
		if size := uint64(len(w.block.run.Params)); off < size && size-off >= n && !write {
			return w.block.run.paramBase + uintptr(off)
		}
	}
	w.failAt(lane, cudaabi.ErrorIllegalAddress, "illegal address %#x for %s of %d bytes", at,
		accessName(write), n)
	return 0
}

func accessName(write bool) string {
	if write {
		return "a write"
	}
	return "a read"
}

// failAt records a fault of the current instruction.
func (w *warp) failAt(lane int, code int, format string, args ...any) {
	if w.fault != nil {
		return
	}
	line := w.prog.Code[w.pc].Line
	w.fault = &Fault{Code: code,
		Detail: fmt.Sprintf("%s: kernel %s, ptx line %d, block %v, thread %v",
			fmt.Sprintf(format, args...), w.block.run.Kernel.Name, line, w.block.id,
			w.tid(uint32(lane)))}
}

// execLoad is ld in all its forms.
func execLoad(w *warp, in *decoded.Inst, m uint32) {
	var p addresses
	size := uint64(in.Mem.Size)
	if !w.locate(in, m, size*uint64(in.Mem.Count), false, &p) {
		return
	}
	w.spent(in.Mem.Spin)
	if in.More == nil {
		w.loadElement(in, &p, 0, in.D, in.DW, m)
		return
	}
	for k, reg := range in.More.Regs {
		w.loadElement(in, &p, uintptr(k)*uintptr(size), reg, in.More.Widths[k], m)
	}
}

func (w *warp) loadElement(in *decoded.Inst, p *addresses, off uintptr, reg uint32, wd lanes.Width,
	m uint32) {
	var v [lanes.Count]uint64
	read := peek
	if in.Mem.Spin {
		read = peekShared
	}
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes.Count - 1)
		v[i] = read(p[i]+off, in.Mem.Size)
	}
	if in.Mem.Signed {
		shift := 64 - 8*uint(in.Mem.Size)
		for i := range v {
			v[i] = uint64(int64(v[i]<<shift) >> shift)
		}
	}
	w.Store(reg, wd, &v, m)
}

// execStore is st in all its forms.
func execStore(w *warp, in *decoded.Inst, m uint32) {
	var p addresses
	var v [lanes.Count]uint64
	size := uint64(in.Mem.Size)
	if !w.locate(in, m, size*uint64(in.Mem.Count), true, &p) {
		return
	}
	write := poke
	if in.Mem.Spin {
		write = pokeShared
	}
	regs, widths := []uint32{in.B}, []lanes.Width{in.BW}
	if in.More != nil {
		regs, widths = in.More.Regs, in.More.Widths
	}
	for k, reg := range regs {
		w.Load(reg, widths[k], &v)
		for s := m; s != 0; s &= s - 1 {
			i := bits.TrailingZeros32(s) & (lanes.Count - 1)
			write(p[i]+uintptr(k)*uintptr(size), in.Mem.Size, v[i])
		}
	}
}

// execLoadParam is ld.param of a kernel's parameter, the same for all lanes.
func execLoadParam(w *warp, in *decoded.Inst, m uint32) {
	size := uint64(in.Mem.Size)
	at := w.block.run.paramBase + uintptr(in.Imm)
	for k := range uint64(in.Mem.Count) {
		value := peek(at+uintptr(k*size), in.Mem.Size)
		if in.Mem.Signed {
			shift := 64 - 8*uint(in.Mem.Size)
			value = uint64(int64(value<<shift) >> shift)
		}
		if in.More == nil {
			w.Fill(in.D, in.DW, value, m)
		} else {
			w.Fill(in.More.Regs[k], in.More.Widths[k], value, m)
		}
	}
}

// execCopyAsync is cp.async, done at once.
func execCopyAsync(w *warp, in *decoded.Inst, m uint32) {
	var to, from addresses
	var sizes [lanes.Count]uint64
	n := in.Imm
	w.Load(in.C, in.CW, &sizes)
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes.Count - 1)
		length := min(sizes[i]&0xffffffff, n)
		one := uint32(1) << i
		if !w.locateAt(in.A, in.AW, uint64(in.Target), ptx.Shared, one, n, true, &to) {
			return
		}
		// With no bytes to read, the source may be any address.
		if length > 0 &&
			!w.locateAt(in.B, in.BW, in.More.SourceOffset, ptx.Global, one, n, false, &from) {
			return
		}
		copyAsync(to[i], from[i], length, n)
	}
}
