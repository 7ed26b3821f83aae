// SPDX-License-Identifier: Apache-2.0

package loadstore

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// Range is a range of valid device addresses.
type Range struct {
	Base, Size uint64
	Writable   bool
}

// Cache holds the ranges that a block's accesses hit last. It belongs to one
// goroutine.
type Cache struct {
	Memory Memory
	// last is what the fast path looks at.
	last   Range
	ranges [8]Range
	next   int
	// Own is memory of the launch itself.
	Own Range
}

// find makes last the range that holds n bytes at addr.
func (c *Cache) find(addr, n uint64) bool {
	if off := addr - c.Own.Base; off < c.Own.Size && c.Own.Size-off >= n {
		c.last = c.Own
		return true
	}
	for _, r := range c.ranges {
		if off := addr - r.Base; off < r.Size && r.Size-off >= n {
			c.last = r
			return true
		}
	}
	if c.Memory == nil || addr>>decoded.WindowShift != 0 {
		return false
	}
	base, end, writable, ok := c.Memory.Lookup(addr)
	if !ok || addr < base || addr >= end || end-addr < n {
		return false
	}
	c.last = Range{base, end - base, writable}
	c.ranges[c.next] = c.last
	c.next = (c.next + 1) % len(c.ranges)
	return true
}

// Addresses are where the lanes' accesses go in this process.
type Addresses [lanes.Count]uintptr

// locate finds out where the accesses of in go, each of n bytes. It reports
// false after a fault.
func (u *Unit) locate(in *decoded.Inst, m uint32, n uint64, write bool, p *Addresses) bool {
	return u.locateAt(in.A, in.AW, in.Imm, in.Mem.Space, m, n, write, p)
}

// locateAt is locate for the address register a with offset off.
func (u *Unit) locateAt(
	a uint32, aw lanes.Width, off uint64, space ptx.Space, m uint32, n uint64, write bool,
	p *Addresses,
) bool {
	if u.locateFast(a, aw, off, space, m, n, write, p) {
		return true
	}
	var addr [lanes.Count]uint64
	u.Load(a, aw, &addr)
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
		if p[i] = u.Resolve(at, i, n, write); p[i] == 0 {
			return false
		}
	}
	return true
}

// Resolve turns a generic address into one of this process; 0 after a fault.
func (u *Unit) Resolve(at uint64, lane int, n uint64, write bool) uintptr {
	if at&(n-1) != 0 {
		u.Fail(lane, cudaabi.ErrorMisalignedAddress, "misaligned address %#x for %d bytes", at, n)
		return 0
	}
	off := at & (1<<decoded.WindowShift - 1)
	switch at >> decoded.WindowShift {
	case 0:
		c := u.Cache
		if off := at - c.last.Base; off >= c.last.Size || c.last.Size-off < n {
			if !c.find(at, n) {
				break
			}
		}
		if write && !c.last.Writable {
			break
		}
		return uintptr(at)
	case decoded.SharedWindow >> decoded.WindowShift:
		if size := u.SharedSize; off < size && size-off >= n {
			return u.Shared + uintptr(off)
		}
	case decoded.LocalWindow >> decoded.WindowShift:
		if size := u.LocalStride; off < size && size-off >= n {
			return u.LocalBase + uintptr(lane)*uintptr(size) + uintptr(off)
		}
	case decoded.ParamWindow >> decoded.WindowShift:
		if size := u.ParamSize; off < size && size-off >= n && !write {
			return u.Params + uintptr(off)
		}
	}
	u.Fail(lane, cudaabi.ErrorIllegalAddress, "illegal address %#x for %s of %d bytes", at,
		accessName(write), n)
	return 0
}

func accessName(write bool) string {
	if write {
		return "a write"
	}
	return "a read"
}

// execLoad is ld in all its forms.
func execLoad(u *Unit, in *decoded.Inst, m uint32) {
	var p Addresses
	size := uint64(in.Mem.Size)
	if !u.locate(in, m, size*uint64(in.Mem.Count), false, &p) {
		return
	}
	if in.More == nil {
		u.loadElement(in, &p, 0, in.D, in.DW, m)
		return
	}
	for k, reg := range in.More.Regs {
		u.loadElement(in, &p, uintptr(k)*uintptr(size), reg, in.More.Widths[k], m)
	}
}

func (u *Unit) loadElement(in *decoded.Inst, p *Addresses, off uintptr, reg uint32, wd lanes.Width,
	m uint32) {
	var v [lanes.Count]uint64
	read := Peek
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
	u.Store(reg, wd, &v, m)
}

// execStore is st in all its forms.
func execStore(u *Unit, in *decoded.Inst, m uint32) {
	var p Addresses
	var v [lanes.Count]uint64
	size := uint64(in.Mem.Size)
	if !u.locate(in, m, size*uint64(in.Mem.Count), true, &p) {
		return
	}
	write := Poke
	if in.Mem.Spin {
		write = pokeShared
	}
	regs, widths := []uint32{in.B}, []lanes.Width{in.BW}
	if in.More != nil {
		regs, widths = in.More.Regs, in.More.Widths
	}
	for k, reg := range regs {
		u.Load(reg, widths[k], &v)
		for s := m; s != 0; s &= s - 1 {
			i := bits.TrailingZeros32(s) & (lanes.Count - 1)
			write(p[i]+uintptr(k)*uintptr(size), in.Mem.Size, v[i])
		}
	}
}

// execLoadParam is ld.param of a kernel's parameter, the same for all lanes.
func execLoadParam(u *Unit, in *decoded.Inst, m uint32) {
	size := uint64(in.Mem.Size)
	at := u.Params + uintptr(in.Imm)
	for k := range uint64(in.Mem.Count) {
		value := Peek(at+uintptr(k*size), in.Mem.Size)
		if in.Mem.Signed {
			shift := 64 - 8*uint(in.Mem.Size)
			value = uint64(int64(value<<shift) >> shift)
		}
		if in.More == nil {
			u.Fill(in.D, in.DW, value, m)
		} else {
			u.Fill(in.More.Regs[k], in.More.Widths[k], value, m)
		}
	}
}

// execCopyAsync is cp.async, done at once.
func execCopyAsync(u *Unit, in *decoded.Inst, m uint32) {
	var to, from Addresses
	var sizes [lanes.Count]uint64
	n := in.Imm
	u.Load(in.C, in.CW, &sizes)
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes.Count - 1)
		length := min(sizes[i]&0xffffffff, n)
		one := uint32(1) << i
		if !u.locateAt(in.A, in.AW, uint64(in.Target), ptx.Shared, one, n, true, &to) {
			return
		}
		// With no bytes to read, the source may be any address.
		if length > 0 &&
			!u.locateAt(in.B, in.BW, in.More.SourceOffset, ptx.Global, one, n, false, &from) {
			return
		}
		copyAsync(to[i], from[i], length, n)
	}
}

// Covers tells whether all of a range is valid, and writable if so wanted.
func (c *Cache) Covers(addr, n uint64, write bool) bool {
	for {
		if !c.find(addr, 1) || write && !c.last.Writable {
			return false
		}
		got := c.last.Base + c.last.Size - addr
		if got >= n {
			return true
		}
		addr, n = addr+got, n-got
	}
}
