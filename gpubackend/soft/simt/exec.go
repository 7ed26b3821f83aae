// SPDX-License-Identifier: Apache-2.0

package simt

import "math/bits"

// The functions below execute any scalarFunc lane by lane. They are slower than
// the generated loops of fastExecs, and the reference for them.

func execScalar0(w *warp, in *inst, m uint32) {
	var r [lanes]uint64
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes - 1)
		r[i] = in.scalar(0, 0, 0)
	}
	w.store(in.d, in.dw, &r, m)
}

func execScalar1(w *warp, in *inst, m uint32) {
	var a, r [lanes]uint64
	w.load(in.a, in.aw, &a)
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes - 1)
		r[i] = in.scalar(a[i], 0, 0)
	}
	w.store(in.d, in.dw, &r, m)
}

func execScalar2(w *warp, in *inst, m uint32) {
	var a, b, r [lanes]uint64
	w.load(in.a, in.aw, &a)
	w.load(in.b, in.bw, &b)
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes - 1)
		r[i] = in.scalar(a[i], b[i], 0)
	}
	w.store(in.d, in.dw, &r, m)
}

func execScalar3(w *warp, in *inst, m uint32) {
	var a, b, c, r [lanes]uint64
	w.load(in.a, in.aw, &a)
	w.load(in.b, in.bw, &b)
	w.load(in.c, in.cw, &c)
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes - 1)
		r[i] = in.scalar(a[i], b[i], c[i])
	}
	w.store(in.d, in.dw, &r, m)
}

// Logic on predicates, all lanes at once.

func setPred(d *uint32, m, value uint32) { *d = *d&^m | value&m }

func execPredNot(w *warp, in *inst, m uint32) { setPred(w.pred(in.d), m, ^*w.pred(in.a)) }

func execPredMov(w *warp, in *inst, m uint32) { setPred(w.pred(in.d), m, *w.pred(in.a)) }

func execPredAnd(w *warp, in *inst, m uint32) {
	setPred(w.pred(in.d), m, *w.pred(in.a)&*w.pred(in.b))
}

func execPredOr(w *warp, in *inst, m uint32) {
	setPred(w.pred(in.d), m, *w.pred(in.a)|*w.pred(in.b))
}

func execPredXor(w *warp, in *inst, m uint32) {
	setPred(w.pred(in.d), m, *w.pred(in.a)^*w.pred(in.b))
}

// predLogic are the operations by which predicates are combined.
var predLogic = map[string]execFunc{"and": execPredAnd, "or": execPredOr, "xor": execPredXor}
