// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/paracuda/paracuda/gpubackend/ptxlex"
)

// spaces are the state spaces in which variables are declared.
var spaces = map[string]Space{"global": Global, "const": Const, "shared": Shared, "local": Local,
	"param": Param, "shared::cta": Shared}

// varHead is what the declarators of one declaration share.
type varHead struct {
	space   Space
	typ     Type
	vector  int
	align   int
	managed bool
	opaque  Opaque
	linkage Linkage
}

// parseVars reads ".space .align n .type name[dims] = init, ... ;".
func (p *parser) parseVars(linkage Linkage) ([]*Variable, error) {
	t := p.peek()
	space, ok := spaces[t.Text]
	if t.Kind != ptxlex.Dot || !ok {
		return nil, p.errorf("directive %q not supported", t)
	}
	p.skip()
	head := varHead{space: space, vector: 1, linkage: linkage}
	if err := p.parseVarHead(&head); err != nil {
		return nil, err
	}
	var vars []*Variable
	for {
		v, err := p.parseDeclarator(head)
		if err != nil {
			return nil, err
		}
		vars = append(vars, v)
		if !p.accept(",") {
			return vars, p.expect(";")
		}
	}
}

// parseVarHead reads attributes, alignment and type.
func (p *parser) parseVarHead(h *varHead) error {
	for p.peek().Kind == ptxlex.Dot {
		word := p.next().Text
		switch word {
		case "align":
			if err := p.parseAlign(&h.align); err != nil {
				return err
			}
		case "attribute":
			if err := p.parseAttribute(h); err != nil {
				return err
			}
		case "v2":
			h.vector = 2
		case "v4":
			h.vector = 4
		case "v8":
			h.vector = 8
		case "texref":
			h.opaque, h.typ = TextureRef, B64
		case "surfref":
			h.opaque, h.typ = SurfaceRef, B64
		case "ptr", "const", "global", "local", "shared":
			// Attributes of pointer parameters are only hints.
		default:
			if h.typ = TypeOf(word); h.typ == NoType || h.typ == Pred {
				return p.errorf("type or attribute .%s of a variable not supported", word)
			}
		}
	}
	switch {
	case h.typ == NoType:
		return p.errorf("type of a variable missing")
	case h.opaque != NotOpaque && (h.space != Global || h.vector != 1 || h.managed):
		return p.errorf("reference to a texture or surface in the %v space not supported", h.space)
	}
	return nil
}

func (p *parser) parseAlign(align *int) error {
	n, err := p.expectInt(maxAlign)
	if err != nil {
		return err
	}
	if n == 0 || n&(n-1) != 0 {
		return p.errorf("alignment %d isn't a power of two", n)
	}
	*align = int(n)
	return nil
}

func (p *parser) parseAttribute(h *varHead) error {
	if err := p.expect("("); err != nil {
		return err
	}
	for !p.accept(")") {
		t := p.next()
		switch {
		case t.Kind == ptxlex.Dot && t.Text == "managed":
			h.managed = true
		case t.Kind == ptxlex.EOF:
			return p.errorf("attribute without end")
		case t.Kind == ptxlex.Dot && t.Text != "unified":
			return p.errorf("attribute .%s not supported", t.Text)
		}
	}
	return nil
}

// parseDeclarator reads one name with its dimensions and initialiser.
func (p *parser) parseDeclarator(h varHead) (*Variable, error) {
	line := p.peek().Line
	name, err := p.expectWord()
	if err != nil {
		return nil, err
	}
	count, open, err := p.parseDims()
	if err != nil {
		return nil, err
	}
	if h.opaque != NotOpaque && (open || count != 1 || p.at("=")) {
		return nil,
			p.errorf("array or initial state of a reference to textures or surfaces not supported")
	}
	element := uint64(h.typ.Size() * h.vector)
	p.take(variableBytes)
	v := &Variable{Name: name, Linkage: h.linkage, Space: h.space, Type: h.typ, Align: h.align,
		Size: count * element, Managed: h.managed, Opaque: h.opaque, Line: line}
	if v.Align == 0 {
		v.Align = int(element)
	}
	if p.accept("=") {
		if err := p.parseInit(v, open); err != nil {
			return nil, err
		}
	} else if open && !(v.Space == Shared || v.Linkage == Extern) {
		return nil, p.errorf("array %s without size", name)
	}
	return v, nil
}

// parseDims reads [n][m]...; open tells that the first is empty.
func (p *parser) parseDims() (count uint64, open bool, err error) {
	count = 1
	for p.accept("[") {
		if p.accept("]") {
			open, count = true, 0
			continue
		}
		n, err := p.expectInt(maxVarSize)
		if err != nil {
			return 0, false, err
		}
		if count *= n; count > maxVarSize {
			return 0, false, p.errorf("array of %d elements is too large", count)
		}
		if err := p.expect("]"); err != nil {
			return 0, false, err
		}
	}
	return count, open, nil
}

// parseInit reads an initialiser into v. An open array takes its size from it.
func (p *parser) parseInit(v *Variable, open bool) error {
	if v.Space != Global && v.Space != Const {
		return p.errorf("%v variable %s can't have initial content", v.Space, v.Name)
	}
	limit := v.Size
	if open {
		limit = maxInitSize
	}
	in := &initialiser{p: p, v: v, limit: limit}
	if err := in.value(0); err != nil {
		return err
	}
	if open {
		v.Size = uint64(len(in.data))
	}
	if p.initBytes += v.Size; p.initBytes > maxInitSize {
		return p.errorf("initial contents of more than %d bytes", maxInitSize)
	}
	if p.take(v.Size - uint64(len(in.data))); p.err != nil {
		return p.err
	}
	v.Init = append(in.data, make([]byte, v.Size-uint64(len(in.data)))...)
	return nil
}

// initialiser collects the bytes of one variable.
type initialiser struct {
	p     *parser
	v     *Variable
	limit uint64
	data  []byte
}

// value reads a number, an address, or a list of values in braces.
func (in *initialiser) value(depth int) error {
	p := in.p
	if !p.accept("{") {
		return in.scalar()
	}
	if depth > 16 {
		return p.errorf("initialiser nested too deep")
	}
	for !p.accept("}") {
		if err := in.value(depth + 1); err != nil {
			return err
		}
		if !p.accept(",") {
			return p.expect("}")
		}
	}
	return nil
}

func (in *initialiser) scalar() error {
	p := in.p
	if t := p.peek(); t.Kind == ptxlex.Word {
		return in.address(0)
	}
	negative := p.accept("-")
	t := p.next()
	if t.Kind == ptxlex.Int && p.at("(") {
		return in.masked(t)
	}
	size := in.v.Type.Size()
	value := t.Value
	switch t.Kind {
	case ptxlex.Int:
		if in.v.Type.Float() {
			return p.errorf("integer %q can't initialise a .%v", t, in.v.Type)
		}
		if negative {
			value = -value
		}
	case ptxlex.Float, ptxlex.Float32:
		f := floatValue(t)
		if negative {
			f = -f
		}
		switch in.v.Type {
		case F64:
			value = math.Float64bits(f)
		case F32:
			value = uint64(math.Float32bits(float32(f)))
		default:
			return p.errorf("number %q can't initialise a .%v", t, in.v.Type)
		}
	default:
		return p.errorf("initial value expected, got %q", t)
	}
	return in.put(value, size)
}

// floatValue is the value of a floating-point token.
func floatValue(t ptxlex.Token) float64 {
	if t.Kind == ptxlex.Float32 {
		return float64(math.Float32frombits(uint32(t.Value)))
	}
	return math.Float64frombits(t.Value)
}

// masked reads "0xFF00(symbol+n)": the bytes of an address that a mask selects.
func (in *initialiser) masked(mask ptxlex.Token) error {
	shift := uint(0)
	for shift < 64 && mask.Value != 0 && mask.Value>>shift&1 == 0 {
		shift += 8
	}
	if mask.Value == 0 || mask.Value>>shift != 0xFF {
		return in.p.errorf("mask %q doesn't select one byte", mask)
	}
	in.p.skip()
	if err := in.address(shift); err != nil {
		return err
	}
	return in.p.expect(")")
}

// address reads "symbol", "generic(symbol)", each with an offset.
func (in *initialiser) address(shift uint) error {
	p := in.p
	name, err := p.expectWord()
	if err != nil {
		return err
	}
	r := Reloc{Offset: uint64(len(in.data)), Size: in.v.Type.Size(), Shift: shift, Symbol: name}
	if name == "generic" && p.accept("(") {
		r.Generic = true
		if r.Symbol, err = p.expectWord(); err != nil {
			return err
		}
		if r.Addend, err = p.parseOffset(); err != nil {
			return err
		}
		if err := p.expect(")"); err != nil {
			return err
		}
	}
	more, err := p.parseOffset()
	if err != nil {
		return err
	}
	r.Addend += more
	p.take(relocBytes)
	in.v.Relocs = append(in.v.Relocs, r)
	return in.put(0, r.Size)
}

// parseOffset reads any number of "+n" and "-n".
func (p *parser) parseOffset() (int64, error) {
	var sum int64
	for p.at("+") || p.at("-") {
		negative := p.next().Text == "-"
		if p.accept("-") {
			negative = !negative
		}
		t := p.next()
		if t.Kind != ptxlex.Int {
			return 0, p.errorf("offset expected, got %q", t)
		}
		if negative {
			sum -= int64(t.Value)
		} else {
			sum += int64(t.Value)
		}
	}
	return sum, nil
}

func (in *initialiser) put(value uint64, size int) error {
	if uint64(len(in.data)+size) > in.limit {
		return &Error{Line: in.v.Line,
			Msg: fmt.Sprintf("%s has more initial values than elements", in.v.Name)}
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], value)
	if size > len(b) {
		return in.p.errorf("initial value of %d bytes is too large", size)
	}
	in.p.take(2 * uint64(size))
	in.data = append(in.data, b[:size]...)
	return nil
}
