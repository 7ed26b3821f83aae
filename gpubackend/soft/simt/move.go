// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// decodeMov decodes mov, packing and unpacking of vectors included.
func decodeMov(d *decoder, in *ptx.Inst, m *modifiers) error {
	t := m.typ()
	if len(in.Args) != 2 || t == ptx.NoType || t == ptx.B128 || t.Size() == 1 {
		return errOperands
	}
	if t == ptx.Pred {
		return d.predicates(lanes.PredMov, in.Args)
	}
	if in.Args[1].Kind == ptx.Vector {
		return d.pack(in.Args[0], in.Args[1], t)
	}
	if in.Args[0].Kind == ptx.Vector {
		return d.unpack(in.Args[0], in.Args[1], t)
	}
	if in.Args[1].Kind == ptx.Special {
		if exec := dynamicSpecials[in.Args[1].Name]; exec != nil {
			return d.dynamicSpecial(in, t, exec)
		}
	}
	return d.compute("mov."+sizeKey("mov", t), scalar.Identity, in.Args, t, t)
}

// dynamicSpecial reads a special register that changes while a kernel runs.
func (d *decoder) dynamicSpecial(in *ptx.Inst, t ptx.Type, exec execFunc) error {
	off, wd, err := d.dest(in.Args[0], t)
	if err != nil || wd == lanes.WidthPred {
		return errOperands
	}
	d.emit(inst{kind: kindMemory, exec: exec, Operands: lanes.Operands{D: off, DW: wd}})
	return nil
}

// dynamicSpecials are the special registers that have no fixed value.
var dynamicSpecials = map[string]execFunc{
	"clock":          execClock(0),
	"clock_hi":       execClock(32),
	"clock64":        execClock(0),
	"globaltimer":    execTimer(0),
	"globaltimer_lo": execTimer(0),
	"globaltimer_hi": execTimer(32),
}

var started = time.Now()

// execClock counts in nanoseconds: a clock of 1 GHz.
func execClock(shift uint) execFunc {
	return func(w *warp, in *inst, m uint32) {
		w.Fill(in.D, in.DW, uint64(time.Since(started))>>shift, m)
	}
}

func execTimer(shift uint) execFunc {
	return func(w *warp, in *inst, m uint32) {
		w.Fill(in.D, in.DW, uint64(time.Now().UnixNano())>>shift, m)
	}
}

// vector decodes the elements of a vector as registers of t divided evenly.
func (d *decoder) vector(vec ptx.Operand, t ptx.Type, dest bool) (*instMore, error) {
	more := d.more(instMore{})
	n := len(vec.Elems)
	if n == 0 || t.Size()%n != 0 {
		return nil, errOperands
	}
	element := map[int]ptx.Type{1: ptx.B8, 2: ptx.B16, 4: ptx.B32, 8: ptx.B64}[t.Size()/n]
	for _, e := range vec.Elems {
		var off uint32
		var wd lanes.Width
		var err error
		if dest {
			off, wd, err = d.dest(e, element)
		} else {
			off, wd, err = d.source(e, element)
		}
		if err != nil || wd == lanes.WidthPred {
			return nil, errOperands
		}
		more.regs = append(more.regs, off)
		more.widths = append(more.widths, wd)
	}
	return more, nil
}

// pack decodes mov.b64 %rd, {%r1, %r2}.
func (d *decoder) pack(dest, vec ptx.Operand, t ptx.Type) error {
	more, err := d.vector(vec, t, false)
	if err != nil {
		return err
	}
	off, wd, err := d.dest(dest, t)
	if err != nil || wd == lanes.WidthPred {
		return errOperands
	}
	d.emit(inst{Operands: lanes.Operands{D: off, DW: wd},
		compute: lanes.Pack(uint(t.Size()*8/len(vec.Elems)), more.regs, more.widths)})
	return nil
}

// unpack decodes mov.b64 {%r1, %r2}, %rd.
func (d *decoder) unpack(vec, src ptx.Operand, t ptx.Type) error {
	more, err := d.vector(vec, t, true)
	if err != nil {
		return err
	}
	off, wd, err := d.source(src, t)
	if err != nil || wd == lanes.WidthPred {
		return errOperands
	}
	d.emit(inst{Operands: lanes.Operands{A: off, AW: wd},
		compute: lanes.Unpack(uint(t.Size()*8/len(vec.Elems)), more.regs, more.widths)})
	return nil
}

// decodeActivemask decodes activemask.b32.
func decodeActivemask(d *decoder, in *ptx.Inst, m *modifiers) error {
	if t := m.typ(); t != ptx.B32 || len(in.Args) != 1 {
		return errOperands
	}
	return d.dynamicSpecial(in, ptx.B32, func(w *warp, in *inst, m uint32) {
		w.Fill(in.D, in.DW, uint64(m&^w.dead), m)
	})
}

// special returns the register that holds a special register of fixed value.
func (d *decoder) special(name string, wd lanes.Width) (uint32, lanes.Width, error) {
	if _, ok := specialValues[name]; !ok {
		return 0, 0, errSpecial(name)
	}
	return d.constant(preset{wd: wd, special: name}), wd, nil
}

type errSpecial string

func (e errSpecial) Error() string { return "special register %" + string(e) + " not supported" }

// tid is the position in the block of a lane's thread.
func (w *warp) tid(lane uint32) Dim {
	n := w.index*lanes.Count + lane
	size := w.block.run.Block
	return Dim{n % size.X, n / size.X % size.Y, n / size.X / size.Y}
}
