// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"errors"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// geometry is the shape in which a texture or surface instruction sees its image.
type geometry struct {
	Dims    int // coordinates that are filtered
	Layered bool
	Cube    bool
}

// geometries are the shapes by their names in PTX.
var geometries = map[string]geometry{
	"1d": {Dims: 1}, "2d": {Dims: 2}, "3d": {Dims: 3}, "a1d": {Dims: 1, Layered: true},
	"a2d":  {Dims: 2, Layered: true},
	"cube": {Dims: 3, Cube: true}, "acube": {Dims: 3, Layered: true, Cube: true},
}

// Coordinates is how many an instruction names, the layer included.
func (g geometry) Coordinates() int {
	if g.Layered {
		return g.Dims + 1
	}
	return g.Dims
}

// Reg is a register or constant as an operand.
type Reg struct {
	Off   uint32
	Width lanes.Width
}

// Texture describes a texture or surface instruction.
type Texture struct {
	geometry
	At      []Reg // coordinates, the layer first
	Integer bool  // coordinates are numbers of texels
	Level   []Reg // level of detail, or none
	Slopes  []Reg // how the coordinates change in x, then in y, or none
	Channel int   // that tld4 gathers
	Beyond  Beyond
	Size    uint8 // bytes of an element of a surface access
}

// Beyond says what a surface access beyond the edges does.
type Beyond uint8

const (
	BeyondTrap Beyond = iota
	BeyondClamp
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
func (d *decoder) image(in *Inst, op ptx.Operand, t ptx.Type) error {
	if op.Kind != ptx.Texture || len(op.Elems) != 2 {
		return errOperands
	}
	var err error
	if in.A, in.AW, err = d.source(op.Elems[0], ptx.B64); err != nil || in.AW != lanes.Width64 {
		return errOperands
	}
	texture := in.More.Texture
	if texture.At, err = d.sources(op.Elems[1], t); err != nil ||
		len(texture.At) < texture.Coordinates() {
		return errOperands
	}
	return nil
}

// sources decodes a vector of registers of 32 bits, or one alone.
func (d *decoder) sources(op ptx.Operand, t ptx.Type) ([]Reg, error) {
	elems := []ptx.Operand{op}
	if op.Kind == ptx.Vector {
		elems = op.Elems
	}
	var regs []Reg
	for _, e := range elems {
		off, wd, err := d.source(e, t)
		if err != nil || wd != lanes.Width32 {
			return nil, errOperands
		}
		regs = append(regs, Reg{off, wd})
	}
	return regs, nil
}

// fetched decodes the four registers that a texture instruction writes.
func (d *decoder) fetched(in *Inst, op ptx.Operand, t ptx.Type) error {
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
		in.More.Regs = append(in.More.Regs, off)
		in.More.Widths = append(in.More.Widths, wd)
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
	if at != ptx.F32 && at != ptx.S32 || at == ptx.S32 && (g.Cube || how == "grad") {
		return errType
	}
	op := &Texture{geometry: g, Integer: at == ptx.S32}
	decoded := Inst{Kind: KindExecute, Op: OpTexture, More: d.more(More{Texture: op})}
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
func (d *decoder) detail(op *Texture, how string, args []ptx.Operand, t ptx.Type) (err error) {
	want := map[string]int{"level": 1, "grad": 2}[how]
	if len(args) != want {
		return errOperands
	}
	switch how {
	case "level":
		if op.Level, err = d.sources(args[0], t); err != nil || len(op.Level) != 1 {
			return errOperands
		}
	case "grad":
		for _, arg := range args {
			slopes, err := d.sources(arg, ptx.F32)
			if err != nil || len(slopes) < op.Dims {
				return errOperands
			}
			op.Slopes = append(op.Slopes, slopes[:op.Dims]...)
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
	if !m.has("v4") || len(in.Args) != 2 || g.Dims != 2 {
		return errOperands
	}
	t := m.typ()
	if m.typ() != ptx.F32 {
		return errType
	}
	op := &Texture{geometry: g, Channel: channel}
	decoded := Inst{Kind: KindExecute, Op: OpGather, More: d.more(More{Texture: op})}
	if err := d.fetched(&decoded, in.Args[0], t); err != nil {
		return err
	}
	if err := d.image(&decoded, in.Args[1], ptx.F32); err != nil {
		return err
	}
	d.emit(decoded)
	return nil
}

// Query is what txq and suq ask for.
type Query uint8

const (
	QueryWidth Query = iota
	QueryHeight
	QueryDepth
	QueryArraySize
	QueryLevels
	QueryNormalized
)

// queries are all of them, by name; surfaces have those up to surfaceQueries.
var queries = []string{QueryWidth: "width", QueryHeight: "height", QueryDepth: "depth",
	QueryArraySize: "array_size", QueryLevels: "num_mipmap_levels",
	QueryNormalized: "normalized_coords"}

const surfaceQueries = QueryArraySize

// decodeQuery decodes txq and suq.
func decodeQuery(d *decoder, in *ptx.Inst, m *modifiers) error {
	what := slices.Index(queries, m.oneOf(queries...))
	if m.typ() != ptx.B32 || len(in.Args) != 2 || in.Args[1].Kind != ptx.Memory ||
		in.Args[1].Offset != 0 {
		return errOperands
	}
	decoded := Inst{Kind: KindExecute}
	switch {
	case what < 0 || in.Op == "suq" && Query(what) > surfaceQueries:
		return errors.New("query not supported")
	case in.Op == "txq":
		decoded.Op = OpQueryTexture
	default:
		decoded.Op = OpQuerySurface
	}
	decoded.Imm = uint64(what)
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
	if err != nil || g.Cube || len(in.Args) != 2 {
		return errOperands
	}
	m.oneOf("ca", "cg", "cs", "cv", "wb", "wt")
	count := map[string]int{"v2": 2, "v4": 4}[m.oneOf("v2", "v4")]
	t := m.typ()
	if t != ptx.B8 && t != ptx.B16 && t != ptx.B32 && t != ptx.B64 || count*t.Size() > 16 {
		return errType
	}
	op := &Texture{geometry: g, Size: uint8(t.Size())}
	if op.Beyond, err = m.edge(); err != nil {
		return err
	}
	store := in.Op == "sust"
	value, image := in.Args[0], in.Args[1]
	decoded := Inst{Kind: KindExecute, Op: OpSurfaceLoad, More: d.more(More{Texture: op})}
	if store {
		value, image = image, value
		decoded.Op = OpSurfaceStore
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
func (m *modifiers) edge() (Beyond, error) {
	switch m.oneOf("trap", "clamp", "zero") {
	case "trap":
		return BeyondTrap, nil
	case "clamp":
		return BeyondClamp, nil
	case "zero":
		return edgeZero, nil
	}
	return 0, errors.New("no mode for addresses beyond the edges")
}

// elements decodes the registers that a surface access writes or reads.
func (d *decoder) elements(in *Inst, op ptx.Operand, t ptx.Type, count int, store bool) error {
	elems := []ptx.Operand{op}
	if op.Kind == ptx.Vector {
		elems = op.Elems
	}
	if len(elems) != count {
		return errOperands
	}
	return d.transfers(in, elems, t, store)
}
