// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

func execVoteAll(w *warp, in *decoded.Inst, m uint32) {
	lanes.SetPred(w.Pred(in.D), m, -uint32(scalar.Bit(*w.Pred(in.A)&m == m)))
}

func execVoteAny(w *warp, in *decoded.Inst, m uint32) {
	lanes.SetPred(w.Pred(in.D), m, -uint32(scalar.Bit(*w.Pred(in.A)&m != 0)))
}

func execVoteUni(w *warp, in *decoded.Inst, m uint32) {
	p := *w.Pred(in.A) & m
	lanes.SetPred(w.Pred(in.D), m, -uint32(scalar.Bit(p == 0 || p == m)))
}

func execBallot(w *warp, in *decoded.Inst, m uint32) {
	w.Fill(in.D, in.DW, uint64(*w.Pred(in.A)&m),
		m)
}

// shuffle lets each lane read a register of another one.
func (w *warp) shuffle(
	in *decoded.Inst, m uint32, source func(lane, b, clamp, segment uint32) (uint32, bool),
) {
	var a, b, c, r [lanes.Count]uint64
	w.Load(in.A, in.AW, &a)
	w.Load(in.B, in.BW, &b)
	w.Load(in.C, in.CW, &c)
	var valid uint32
	for s := m; s != 0; s &= s - 1 {
		i := bits.TrailingZeros32(s) & (lanes.Count - 1)
		clamp, segment := uint32(c[i])&31, uint32(c[i])>>8&31
		from, ok := source(uint32(i), uint32(b[i])&31, clamp, segment)
		if !ok {
			from = uint32(i)
		} else {
			valid |= 1 << i
		}
		r[i] = a[from&(lanes.Count-1)]
	}
	w.Store(in.D, in.DW, &r, m)
	if len(in.More.Regs) > 0 {
		lanes.SetPred(w.Pred(in.More.Regs[0]), m, valid)
	}
}

// segmentEnd is the last lane that a shuffle may read.
func segmentEnd(lane, clamp, segment uint32) uint32 { return lane&segment | clamp&^segment }

func shflUp(lane, b, clamp, segment uint32) (uint32, bool) {
	return lane - b, int32(lane-b) >= int32(segmentEnd(lane, clamp, segment))
}

func shflDown(lane, b, clamp, segment uint32) (uint32, bool) {
	return lane + b, lane+b <= segmentEnd(lane, clamp, segment)
}

func shflBfly(lane, b, clamp, segment uint32) (uint32, bool) {
	return lane ^ b, lane^b <= segmentEnd(lane, clamp, segment)
}

func shflIdx(lane, b, clamp, segment uint32) (uint32, bool) {
	from := lane&segment | b&^segment
	return from, from <= segmentEnd(lane, clamp, segment)
}

func execMatchAny(w *warp, in *decoded.Inst, m uint32) {
	var a, r [lanes.Count]uint64
	w.Load(in.A, in.AW, &a)
	for i := range a {
		for s := m; s != 0; s &= s - 1 {
			if k := bits.TrailingZeros32(s) & (lanes.Count - 1); a[k] == a[i] {
				r[i] |= 1 << k
			}
		}
	}
	w.Store(in.D, in.DW, &r, m)
}

func execMatchAll(w *warp, in *decoded.Inst, m uint32) {
	var a [lanes.Count]uint64
	w.Load(in.A, in.AW, &a)
	same := m
	for s := m; s != 0; s &= s - 1 {
		if a[lanes.First(s)] != a[lanes.First(m)] {
			same = 0
		}
	}
	w.Fill(in.D, in.DW, uint64(same), m)
	if len(in.More.Regs) > 0 {
		lanes.SetPred(w.Pred(in.More.Regs[0]), m, same)
	}
}

// execRedux combines the lanes' values.
func execRedux(w *warp, in *decoded.Inst, m uint32) {
	var a [lanes.Count]uint64
	w.Load(in.A, in.AW, &a)
	r := a[lanes.First(m)]
	for s := m & (m - 1); s != 0; s &= s - 1 {
		r = in.More.Scalar(r, a[lanes.First(s)], 0)
	}
	w.Fill(in.D, in.DW, r, m)
}

// execElect chooses the lowest lane.
func execElect(w *warp, in *decoded.Inst, m uint32) {
	lanes.SetPred(w.Pred(in.A), m, m&-m)
	w.Fill(in.D, in.DW, uint64(lanes.First(m)), m)
}

// shuffleBy is a shuffle whose lanes read from where source says.
func shuffleBy(source func(lane, b, clamp, segment uint32) (from uint32, ok bool)) execFunc {
	return func(w *warp, in *decoded.Inst, m uint32) { w.shuffle(in, m, source) }
}
