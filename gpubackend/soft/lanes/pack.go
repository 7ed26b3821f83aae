// SPDX-License-Identifier: Apache-2.0

package lanes

// Pack joins elements of n bits, each in a register of its own, in one register.
func Pack(n uint, regs []uint32, widths []Width) Func {
	general := packing(n, regs, widths)
	if !words(n, widths) {
		return general
	}
	return func(r Registers, o *Operands, m uint32) {
		if o.DW != Width64 {
			general(r, o, m)
			return
		}
		d, low, high := r.U64(o.D), r.U32(regs[0]), r.U32(regs[1])
		if m == All {
			for i := range d {
				d[i] = uint64(low[i]) | uint64(high[i])<<32
			}
			return
		}
		for s := m; s != 0; s &= s - 1 {
			i := First(s)
			d[i] = uint64(low[i]) | uint64(high[i])<<32
		}
	}
}

// Unpack is the reverse.
func Unpack(n uint, regs []uint32, widths []Width) Func {
	general := unpacking(n, regs, widths)
	if !words(n, widths) {
		return general
	}
	return func(r Registers, o *Operands, m uint32) {
		if o.AW != Width64 {
			general(r, o, m)
			return
		}
		a, low, high := r.U64(o.A), r.U32(regs[0]), r.U32(regs[1])
		if m == All {
			for i := range a {
				low[i], high[i] = uint32(a[i]), uint32(a[i]>>32)
			}
			return
		}
		for s := m; s != 0; s &= s - 1 {
			i := First(s)
			low[i], high[i] = uint32(a[i]), uint32(a[i]>>32)
		}
	}
}

// words says whether the elements are the two words of a register of 64 bits.
func words(n uint, widths []Width) bool {
	return n == 32 && len(widths) == 2 && widths[0] == Width32 && widths[1] == Width32
}

func packing(n uint, regs []uint32, widths []Width) Func {
	return func(r Registers, o *Operands, m uint32) {
		var d, e [Count]uint64
		for k, reg := range regs {
			r.Load(reg, widths[k], &e)
			for i := range d {
				d[i] |= e[i] & (1<<n - 1) << (n * uint(k))
			}
		}
		r.Store(o.D, o.DW, &d, m)
	}
}

func unpacking(n uint, regs []uint32, widths []Width) Func {
	return func(r Registers, o *Operands, m uint32) {
		var a, e [Count]uint64
		r.Load(o.A, o.AW, &a)
		for k, reg := range regs {
			for i := range a {
				e[i] = a[i] >> (n * uint(k)) & (1<<n - 1)
			}
			r.Store(reg, widths[k], &e, m)
		}
	}
}
