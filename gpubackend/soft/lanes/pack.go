// SPDX-License-Identifier: Apache-2.0

package lanes

// Pack puts elements of n bits, of registers of their own, next to one another.
func Pack(n uint, regs []uint32, widths []Width) Func {
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

// Unpack is the reverse.
func Unpack(n uint, regs []uint32, widths []Width) Func {
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
