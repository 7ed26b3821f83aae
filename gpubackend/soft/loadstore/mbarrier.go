// SPDX-License-Identifier: Apache-2.0

package loadstore

import (
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// The 64-bit word of an mbarrier object: how many arrivals are pending in the
// current phase and expected in each, and the parity of the phase in the top
// bit. A program sees it only as a token.
const (
	mbarrierCount    = decoded.MbarrierPending
	mbarrierExpected = 20
	mbarrierPhase    = 63
)

// mbarrierArrive counts n arrivals and returns the new word.
func mbarrierArrive(word, n uint64) uint64 {
	pending, expected := word&mbarrierCount, word>>mbarrierExpected&mbarrierCount
	phase := word >> mbarrierPhase
	if pending -= min(n, pending); pending == 0 {
		pending, phase = expected, phase^1
	}
	return phase<<mbarrierPhase | expected<<mbarrierExpected | pending
}

// mbarriers locates the objects and performs f on each lane's.
func (u *Unit) mbarriers(in *decoded.Inst, m uint32, f func(lane int, word,
	operand uint64) uint64) {
	var p Addresses
	if !u.locateAt(in.A, in.AW, in.More.SourceOffset, in.Mem.Space, m, 8, true, &p) {
		return
	}
	for s := m; s != 0; s &= s - 1 {
		lane := lanes.First(s)
		word := Peek(p[lane], 8)
		if next := f(lane, word, u.Lane(in.B, in.BW, lane)); next != word {
			Poke(p[lane], 8, next)
		}
	}
}

func execMbarrierInit(u *Unit, in *decoded.Inst, m uint32) {
	u.mbarriers(in, m, func(_ int, _, count uint64) uint64 {
		count &= mbarrierCount
		return count<<mbarrierExpected | count
	})
}

func execMbarrierArrive(u *Unit, in *decoded.Inst, m uint32) {
	var r [lanes.Count]uint64
	u.mbarriers(in, m, func(lane int, word, count uint64) uint64 {
		r[lane] = word
		return mbarrierArrive(word, count&0xffffffff)
	})
	if in.DW != 0 {
		u.Store(in.D, in.DW, &r, m)
	}
}

// execMbarrierTest tells whether the phase of a token, or of a parity, is over.
func execMbarrierTest(u *Unit, in *decoded.Inst, m uint32) {
	var r [lanes.Count]uint64
	u.mbarriers(in, m, func(lane int, word, token uint64) uint64 {
		phase := token >> mbarrierPhase
		if in.Imm != 0 {
			phase = token & 1
		}
		r[lane] = scalar.Bit(word>>mbarrierPhase != phase)
		return word
	})
	u.Store(in.D, in.DW, &r, m)
}

// execMbarrierInval has nothing to do: what is in the object doesn't count any more.
func execMbarrierInval(*Unit, *decoded.Inst, uint32) {}
