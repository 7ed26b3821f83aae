// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// The 64-bit word of an mbarrier object: how many arrivals are pending in the
// current phase and expected in each, and the parity of the phase in the top
// bit. A program sees it only as a token.
const (
	mbarrierCount    = 1<<20 - 1
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

// decodeMbarrier decodes mbarrier. Counts of transactions, which only bulk
// copies make, aren't supported.
func decodeMbarrier(d *decoder, in *ptx.Inst, m *modifiers) error {
	op := m.oneOf("init", "inval", "arrive", "test_wait", "try_wait", "pending_count")
	parity := m.has("parity")
	m.has("noComplete")
	m.ordering()
	space := m.space()
	if m.typ() != ptx.B64 {
		return errType
	}
	if op == "pending_count" {
		f := func(a, _, _ uint64) uint64 { return a & mbarrierCount }
		return d.compute("", f, in.Args, ptx.U32, ptx.B64)
	}
	decoded := inst{kind: kindMemory, mem: memAccess{space: space, size: 8}}
	one := ptx.Operand{Kind: ptx.Int, Value: 1}
	switch op {
	case "init":
		if len(in.Args) != 2 {
			return errOperands
		}
		return d.emitMbarrier(decoded, execMbarrierInit, nil, in.Args[0], in.Args[1])
	case "inval":
		return d.emitMbarrier(decoded, func(*warp, *inst, uint32) {}, nil, in.Args[0], one)
	case "arrive":
		return d.mbarrierArrive(decoded, in.Args)
	case "test_wait", "try_wait":
		if len(in.Args) != 3 && (len(in.Args) != 4 || op != "try_wait") {
			return errOperands
		}
		decoded.imm = scalar.Bit(parity)
		return d.emitMbarrier(decoded, execMbarrierTest, &in.Args[0], in.Args[1], in.Args[2])
	}
	return errType
}

func (d *decoder) mbarrierArrive(decoded inst, args []ptx.Operand) error {
	count := ptx.Operand{Kind: ptx.Int, Value: 1}
	if len(args) == 3 {
		count = args[2]
	} else if len(args) != 2 {
		return errOperands
	}
	return d.emitMbarrier(decoded, execMbarrierArrive, &args[0], args[1], count)
}

// emitMbarrier emits an operation on the object at memory. The offset goes to
// sourceOffset, which leaves imm to the operation.
func (d *decoder) emitMbarrier(
	in inst, exec execFunc, dest *ptx.Operand, memory, value ptx.Operand,
) error {
	in.exec = exec
	flag := in.imm
	if err := d.memoryOperand(&in, memory); err != nil {
		return err
	}
	in.more = d.more(instMore{sourceOffset: in.imm})
	in.imm = flag
	var err error
	if in.B, in.BW, err = d.source(value, ptx.B64); err != nil || in.BW == lanes.WidthPred {
		return errOperands
	}
	if dest != nil {
		t := d.destType(*dest)
		if in.D, in.DW, err = d.dest(*dest, t); err != nil {
			return err
		}
	}
	d.emit(in)
	return nil
}

// destType is the type of a destination that may be of any.
func (d *decoder) destType(op ptx.Operand) ptx.Type {
	if op.Kind == ptx.Reg && d.widthOf(op.Reg) == lanes.WidthPred {
		return ptx.Pred
	}
	return ptx.B64
}

// mbarriers locates the objects and performs f on each lane's.
func (w *warp) mbarriers(in *inst, m uint32, f func(lane int, word, operand uint64) uint64) {
	var p addresses
	if !w.locateAt(in.A, in.AW, in.more.sourceOffset, in.mem.space, m, 8, true, &p) {
		return
	}
	for s := m; s != 0; s &= s - 1 {
		lane := lanes.First(s)
		word := peek(p[lane], 8)
		if next := f(lane, word, w.Lane(in.B, in.BW, lane)); next != word {
			poke(p[lane], 8, next)
		}
	}
}

func execMbarrierInit(w *warp, in *inst, m uint32) {
	w.mbarriers(in, m, func(_ int, _, count uint64) uint64 {
		count &= mbarrierCount
		return count<<mbarrierExpected | count
	})
}

func execMbarrierArrive(w *warp, in *inst, m uint32) {
	var r [lanes.Count]uint64
	w.mbarriers(in, m, func(lane int, word, count uint64) uint64 {
		r[lane] = word
		return mbarrierArrive(word, count&0xffffffff)
	})
	if in.DW != 0 {
		w.Store(in.D, in.DW, &r, m)
	}
}

// execMbarrierTest tells whether the phase of a token, or of a parity, is over.
func execMbarrierTest(w *warp, in *inst, m uint32) {
	var r [lanes.Count]uint64
	w.spent(true)
	w.mbarriers(in, m, func(lane int, word, token uint64) uint64 {
		phase := token >> mbarrierPhase
		if in.imm != 0 {
			phase = token & 1
		}
		r[lane] = scalar.Bit(word>>mbarrierPhase != phase)
		return word
	})
	w.Store(in.D, in.DW, &r, m)
}
