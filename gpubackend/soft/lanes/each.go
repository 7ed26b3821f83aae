// SPDX-License-Identifier: Apache-2.0

package lanes

import "github.com/paracuda/paracuda/gpubackend/soft/scalar"

// Each returns the function that executes f, of n operands, lane by lane; nil if f is nil. It is
// slower than the generated loops, and their reference in tests.
func Each(n int, f scalar.Func) Func {
	if f == nil {
		return nil
	}
	return [...]func(scalar.Func) Func{each0, each1, each2, each3}[n](f)
}

func each0(f scalar.Func) Func {
	return func(r Registers, o *Operands, m uint32) {
		var d [Count]uint64
		for s := m; s != 0; s &= s - 1 {
			d[First(s)] = f(0, 0, 0)
		}
		r.Store(o.D, o.DW, &d, m)
	}
}

func each1(f scalar.Func) Func {
	return func(r Registers, o *Operands, m uint32) {
		var a, d [Count]uint64
		r.Load(o.A, o.AW, &a)
		for s := m; s != 0; s &= s - 1 {
			i := First(s)
			d[i] = f(a[i], 0, 0)
		}
		r.Store(o.D, o.DW, &d, m)
	}
}

func each2(f scalar.Func) Func {
	return func(r Registers, o *Operands, m uint32) {
		var a, b, d [Count]uint64
		r.Load(o.A, o.AW, &a)
		r.Load(o.B, o.BW, &b)
		for s := m; s != 0; s &= s - 1 {
			i := First(s)
			d[i] = f(a[i], b[i], 0)
		}
		r.Store(o.D, o.DW, &d, m)
	}
}

func each3(f scalar.Func) Func {
	return func(r Registers, o *Operands, m uint32) {
		var a, b, c, d [Count]uint64
		r.Load(o.A, o.AW, &a)
		r.Load(o.B, o.BW, &b)
		r.Load(o.C, o.CW, &c)
		for s := m; s != 0; s &= s - 1 {
			i := First(s)
			d[i] = f(a[i], b[i], c[i])
		}
		r.Store(o.D, o.DW, &d, m)
	}
}
