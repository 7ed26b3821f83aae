// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/sampler"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// geometry is the shape in which a texture or surface instruction sees its image.
type geometry struct {
	dims    int // coordinates that are filtered
	layered bool
	cube    bool
}

// geometries are the shapes by their names in PTX.
var geometries = map[string]geometry{
	"1d": {dims: 1}, "2d": {dims: 2}, "3d": {dims: 3}, "a1d": {dims: 1, layered: true},
	"a2d":  {dims: 2, layered: true},
	"cube": {dims: 3, cube: true}, "acube": {dims: 3, layered: true, cube: true},
}

// coordinates is how many an instruction names, the layer included.
func (g geometry) coordinates() int {
	if g.layered {
		return g.dims + 1
	}
	return g.dims
}

// reg is a register or constant as an operand.
type reg struct {
	off uint32
	wd  lanes.Width
}

// textureOp describes a texture or surface instruction.
type textureOp struct {
	geometry
	at      []reg // coordinates, the layer first
	integer bool  // coordinates are numbers of texels
	level   []reg // level of detail, or none
	slopes  []reg // how the coordinates change in x, then in y, or none
	channel int   // that tld4 gathers
	edge    edgeMode
	size    uint8 // bytes of an element of a surface access
}

// edgeMode says what a surface access beyond the edges does.
type edgeMode uint8

const (
	edgeTrap edgeMode = iota
	edgeClamp
	edgeZero
)

// takeGeometry takes the shape of an instruction.
func (m *modifiers) takeGeometry() (geometry, error) {
	g, ok := geometries[m.oneOf("1d", "2d", "3d", "a1d", "a2d", "cube", "acube")]
	if !ok {
		return g, errors.New("geometry not supported")
	}
	return g, nil
}

// image decodes the texture or surface and the coordinates of [a, {x, y}] into in.
func (d *decoder) image(in *inst, op ptx.Operand, t ptx.Type) error {
	if op.Kind != ptx.Texture || len(op.Elems) != 2 {
		return errOperands
	}
	var err error
	if in.A, in.AW, err = d.source(op.Elems[0], ptx.B64); err != nil || in.AW != lanes.Width64 {
		return errOperands
	}
	texture := in.more.texture
	if texture.at, err = d.sources(op.Elems[1], t); err != nil ||
		len(texture.at) < texture.coordinates() {
		return errOperands
	}
	return nil
}

// sources decodes a vector of registers of 32 bits, or one alone.
func (d *decoder) sources(op ptx.Operand, t ptx.Type) ([]reg, error) {
	elems := []ptx.Operand{op}
	if op.Kind == ptx.Vector {
		elems = op.Elems
	}
	var regs []reg
	for _, e := range elems {
		off, wd, err := d.source(e, t)
		if err != nil || wd != lanes.Width32 {
			return nil, errOperands
		}
		regs = append(regs, reg{off, wd})
	}
	return regs, nil
}

// fetched decodes the four registers that a texture instruction writes.
func (d *decoder) fetched(in *inst, op ptx.Operand, t ptx.Type) error {
	if t.Size() != 4 || t == ptx.F16x2 || t == ptx.BF16x2 {
		return errType
	}
	if op.Kind != ptx.Vector || len(op.Elems) != 4 {
		return errOperands
	}
	for _, e := range op.Elems {
		off, wd, err := d.dest(e, t)
		if err != nil || wd != lanes.Width32 {
			return errOperands
		}
		in.more.regs = append(in.more.regs, off)
		in.more.widths = append(in.more.widths, wd)
	}
	return nil
}

// decodeTexture decodes tex.
func decodeTexture(d *decoder, in *ptx.Inst, m *modifiers) error {
	how := m.oneOf("level", "grad", "base")
	g, err := m.takeGeometry()
	if err != nil {
		return err
	}
	if !m.has("v4") || len(in.Args) < 2 {
		return errOperands
	}
	t, at := m.typ(), m.typ()
	if at != ptx.F32 && at != ptx.S32 || at == ptx.S32 && (g.cube || how == "grad") {
		return errType
	}
	op := &textureOp{geometry: g, integer: at == ptx.S32}
	decoded := inst{kind: kindMemory, exec: execTexture, more: d.more(instMore{texture: op})}
	if err := d.fetched(&decoded, in.Args[0], t); err != nil {
		return err
	}
	if err := d.image(&decoded, in.Args[1], at); err != nil {
		return err
	}
	if err := d.detail(op, how, in.Args[2:], at); err != nil {
		return err
	}
	d.emit(decoded)
	return nil
}

// detail decodes what follows the coordinates: the level of detail, or slopes. Offsets and
// comparisons aren't supported.
func (d *decoder) detail(op *textureOp, how string, args []ptx.Operand, t ptx.Type) (err error) {
	want := map[string]int{"level": 1, "grad": 2}[how]
	if len(args) != want {
		return errOperands
	}
	switch how {
	case "level":
		if op.level, err = d.sources(args[0], t); err != nil || len(op.level) != 1 {
			return errOperands
		}
	case "grad":
		for _, arg := range args {
			slopes, err := d.sources(arg, ptx.F32)
			if err != nil || len(slopes) < op.dims {
				return errOperands
			}
			op.slopes = append(op.slopes, slopes[:op.dims]...)
		}
	}
	return nil
}

// decodeGather decodes tld4.
func decodeGather(d *decoder, in *ptx.Inst, m *modifiers) error {
	channel := map[string]int{"r": 0, "g": 1, "b": 2, "a": 3}[m.oneOf("r", "g", "b", "a")]
	g, err := m.takeGeometry()
	if err != nil {
		return err
	}
	if !m.has("v4") || len(in.Args) != 2 || g.dims != 2 {
		return errOperands
	}
	t := m.typ()
	if m.typ() != ptx.F32 {
		return errType
	}
	op := &textureOp{geometry: g, channel: channel}
	decoded := inst{kind: kindMemory, exec: execGather, more: d.more(instMore{texture: op})}
	if err := d.fetched(&decoded, in.Args[0], t); err != nil {
		return err
	}
	if err := d.image(&decoded, in.Args[1], ptx.F32); err != nil {
		return err
	}
	d.emit(decoded)
	return nil
}

// textureQueries are what txq can ask for.
var textureQueries = map[string]func(*sampler.Texture) uint32{
	"width":             func(t *sampler.Texture) uint32 { return t.Size().Width },
	"height":            func(t *sampler.Texture) uint32 { return t.Size().Height },
	"depth":             func(t *sampler.Texture) uint32 { return t.Size().Depth },
	"array_size":        func(t *sampler.Texture) uint32 { return t.Size().Depth },
	"num_mipmap_levels": func(t *sampler.Texture) uint32 { return uint32(len(t.Levels)) },
	"normalized_coords": func(t *sampler.Texture) uint32 { return bit32(t.Normalized) },
}

func bit32(b bool) uint32 { return uint32(scalar.Bit(b)) }

// surfaceQueries are what suq can ask for.
var surfaceQueries = map[string]func(*sampler.Surface) uint32{
	"width":      func(s *sampler.Surface) uint32 { return s.Width },
	"height":     func(s *sampler.Surface) uint32 { return s.Height },
	"depth":      func(s *sampler.Surface) uint32 { return s.Depth },
	"array_size": func(s *sampler.Surface) uint32 { return s.Depth },
}

// decodeQuery decodes txq and suq.
func decodeQuery(d *decoder, in *ptx.Inst, m *modifiers) error {
	query := m.oneOf("width", "height", "depth", "array_size", "num_mipmap_levels",
		"normalized_coords")
	if m.typ() != ptx.B32 || len(in.Args) != 2 || in.Args[1].Kind != ptx.Memory ||
		in.Args[1].Offset != 0 {
		return errOperands
	}
	decoded := inst{kind: kindMemory}
	if in.Op == "txq" && textureQueries[query] != nil {
		decoded.exec = queryTexture(textureQueries[query])
	} else if in.Op == "suq" && surfaceQueries[query] != nil {
		decoded.exec = querySurface(surfaceQueries[query])
	} else {
		return errors.New("query not supported")
	}
	var err error
	if decoded.D, decoded.DW, err = d.dest(in.Args[0], ptx.B32); err != nil ||
		decoded.DW == lanes.WidthPred {
		return errOperands
	}
	if decoded.A, decoded.AW, err = d.source(in.Args[1].Elems[0], ptx.B64); err != nil ||
		decoded.AW != lanes.Width64 {
		return errOperands
	}
	d.emit(decoded)
	return nil
}

// decodeSurface decodes suld.b and sust.b.
func decodeSurface(d *decoder, in *ptx.Inst, m *modifiers) error {
	if !m.has("b") {
		return errors.New("formatted access not supported")
	}
	g, err := m.takeGeometry()
	if err != nil || g.cube || len(in.Args) != 2 {
		return errOperands
	}
	m.oneOf("ca", "cg", "cs", "cv", "wb", "wt")
	count := map[string]int{"v2": 2, "v4": 4}[m.oneOf("v2", "v4")]
	t := m.typ()
	if t != ptx.B8 && t != ptx.B16 && t != ptx.B32 && t != ptx.B64 || count*t.Size() > 16 {
		return errType
	}
	op := &textureOp{geometry: g, size: uint8(t.Size())}
	if op.edge, err = m.edge(); err != nil {
		return err
	}
	store := in.Op == "sust"
	value, image := in.Args[0], in.Args[1]
	decoded := inst{kind: kindMemory, exec: execSurfaceLoad, more: d.more(instMore{texture: op})}
	if store {
		value, image = image, value
		decoded.exec = execSurfaceStore
	}
	if err := d.elements(&decoded, value, t, max(count, 1), store); err != nil {
		return err
	}
	if err := d.image(&decoded, image, ptx.B32); err != nil {
		return err
	}
	d.emit(decoded)
	return nil
}

// edge takes what happens beyond the edges.
func (m *modifiers) edge() (edgeMode, error) {
	switch m.oneOf("trap", "clamp", "zero") {
	case "trap":
		return edgeTrap, nil
	case "clamp":
		return edgeClamp, nil
	case "zero":
		return edgeZero, nil
	}
	return 0, errors.New("mode for addresses beyond the edges missing")
}

// elements decodes the registers that a surface access writes or reads.
func (d *decoder) elements(in *inst, op ptx.Operand, t ptx.Type, count int, store bool) error {
	elems := []ptx.Operand{op}
	if op.Kind == ptx.Vector {
		elems = op.Elems
	}
	if len(elems) != count {
		return errOperands
	}
	for _, e := range elems {
		var off uint32
		var wd lanes.Width
		if err := d.value(&off, &wd, &off, &wd, e, t, store); err != nil {
			return err
		}
		in.more.regs = append(in.more.regs, off)
		in.more.widths = append(in.more.widths, wd)
	}
	return nil
}
