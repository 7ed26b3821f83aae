// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"slices"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/ptxlex"
)

// warpSize is the value of the constant WARP_SZ.
const warpSize = 32

// parseOperand reads one operand of an instruction.
func (p *parser) parseOperand() (Operand, error) {
	switch {
	case p.accept("{"):
		return p.parseVector()
	case p.accept("["):
		return p.parseMemory()
	case p.accept("!"):
		arg, err := p.parseName()
		if err == nil && (arg.Kind != Reg || p.fn.f.Regs[arg.Reg].Type != Pred) {
			return arg, p.errorf("! before something that isn't a predicate")
		}
		arg.Not = true
		return arg, err
	case p.peek().Kind == ptxlex.Word:
		arg, err := p.parseName()
		if err != nil || !p.accept("|") {
			return arg, err
		}
		second, err := p.parseName()
		p.takeBody(2 * operandBytes)
		return Operand{Kind: Pair, Elems: []Operand{arg, second}}, err
	}
	return p.parseNumber()
}

// parseNumber reads a constant with its sign.
func (p *parser) parseNumber() (Operand, error) {
	negative := p.accept("-")
	inverted := !negative && p.accept("~")
	t := p.peek()
	switch t.Kind {
	case ptxlex.Int:
		p.skip()
		switch {
		case negative:
			t.Value = -t.Value
		case inverted:
			t.Value = ^t.Value
		}
		return Operand{Kind: Int, Value: t.Value}, nil
	case ptxlex.Float:
		p.skip()
		if negative {
			t.Value ^= 1 << 63
		}
		return Operand{Kind: Float, Value: t.Value}, nil
	case ptxlex.Float32:
		p.skip()
		if negative {
			t.Value ^= 1 << 31
		}
		return Operand{Kind: Float32, Value: t.Value}, nil
	}
	return Operand{}, p.errorf("operand expected, got %q", t)
}

// parseVector reads "{a, b, ...}" from after the brace.
func (p *parser) parseVector() (Operand, error) {
	vec := Operand{Kind: Vector}
	for {
		if p.at("{") || p.at("[") {
			return vec, p.errorf("%q in a vector", p.peek())
		}
		arg, err := p.parseOperand()
		if err != nil {
			return vec, err
		}
		p.takeBody(operandBytes)
		vec.Elems = append(vec.Elems, arg)
		if len(vec.Elems) > 8 {
			return vec, p.errorf("vector of more than 8 elements")
		}
		if !p.accept(",") {
			return vec, p.expect("}")
		}
	}
}

// parseMemory reads "[base+offset]" from after the bracket.
func (p *parser) parseMemory() (Operand, error) {
	var base Operand
	var err error
	if p.peek().Kind == ptxlex.Word {
		base, err = p.parseName()
	} else {
		base, err = p.parseNumber()
	}
	if err != nil {
		return base, err
	}
	mem := Operand{Kind: Memory, Offset: base.Offset}
	base.Offset = 0
	more, err := p.parseOffset()
	if err != nil {
		return mem, err
	}
	mem.Offset += more
	p.takeBody(operandBytes)
	mem.Elems = []Operand{base}
	switch base.Kind {
	case Reg, Int, Address:
		if p.at(",") {
			return p.parseCoordinates(mem)
		}
		return mem, p.expect("]")
	}
	return mem, p.errorf("address of this form not supported")
}

// parseCoordinates reads ", {x, y}]", what follows the texture or surface in the brackets.
func (p *parser) parseCoordinates(mem Operand) (Operand, error) {
	if mem.Offset != 0 {
		return mem, p.errorf("texture or surface with an offset")
	}
	mem.Kind = Texture
	for p.accept(",") {
		if p.at("[") || len(mem.Elems) > 2 {
			return mem, p.errorf("operand in brackets of this form not supported")
		}
		arg, err := p.parseOperand()
		if err != nil {
			return mem, err
		}
		p.takeBody(operandBytes)
		mem.Elems = append(mem.Elems, arg)
	}
	return mem, p.expect("]")
}

// parseName reads a register, a symbol with an offset, a special register, a
// label, or the sink.
func (p *parser) parseName() (Operand, error) {
	name, err := p.expectWord()
	if err != nil {
		return Operand{}, err
	}
	switch name {
	case "_":
		return Operand{Kind: Sink}, nil
	case "WARP_SZ":
		return Operand{Kind: Int, Value: warpSize}, nil
	}
	if sym := p.fn.lookup(name); sym != nil {
		return p.localName(name, sym)
	}
	if v := p.module.vars[name]; v != nil {
		return p.withOffset(Operand{Kind: Address, Of: ModuleVar, Var: v, Name: name})
	}
	if f := p.module.functions[name]; f != nil {
		return Operand{Kind: Address, Of: FunctionAddr, Func: f, Name: name}, nil
	}
	if name[0] == '%' {
		if !isSpecial(name[1:]) {
			return Operand{}, p.errorf("unknown register %s", name)
		}
		for p.peek().Kind == ptxlex.Dot {
			if name += "." + p.next().Text; len(name) > maxSpecial {
				return Operand{}, p.errorf("unknown register %s", name[:maxSpecial])
			}
		}
		return Operand{Kind: Special, Name: name[1:]}, nil
	}
	// Labels may come later; closeScope resolves them.
	return Operand{Kind: Label, Name: name}, nil
}

// specialPrefixes begin the names of special registers.
var specialPrefixes = []string{"tid", "ntid", "laneid", "warpid", "nwarpid", "ctaid", "nctaid",
	"smid", "nsmid", "gridid",
	"cluster", "ncluster", "is_explicit_cluster", "lanemask_", "clock", "pm", "envreg",
	"globaltimer",
	"reserved_smem_offset", "total_smem_size", "aggr_smem_size", "dynamic_smem_size",
	"current_graph_exec"}

// maxSpecial is longer than the name of any special register.
const maxSpecial = 64

// isSpecial tells whether name may be that of a special register.
func isSpecial(name string) bool {
	return slices.ContainsFunc(specialPrefixes,
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func (p *parser) localName(name string, sym *symbol) (Operand, error) {
	switch sym.kind {
	case symRegister:
		if p.peek().Kind == ptxlex.Dot {
			return Operand{}, p.errorf("part .%s of register %s not supported", p.peek().Text, name)
		}
		return Operand{Kind: Reg, Reg: sym.index, Name: name}, nil
	case symVar:
		return p.withOffset(Operand{Kind: Address, Of: FunctionVar, Index: sym.index, Name: name})
	case symParam:
		return p.withOffset(Operand{Kind: Address, Of: ParamVar, Index: sym.index, Name: name})
	case symResult:
		return p.withOffset(Operand{Kind: Address, Of: ResultVar, Index: sym.index, Name: name})
	case symLabel, symTargets:
		return Operand{Kind: Label, Name: name}, nil
	}
	return Operand{}, p.errorf("%s can't be an operand", name)
}

func (p *parser) withOffset(arg Operand) (Operand, error) {
	var err error
	arg.Offset, err = p.parseOffset()
	return arg, err
}

// parseCall reads what follows "call": results, function, arguments, prototype.
func (p *parser) parseCall() (*Call, error) {
	p.takeBody(callBytes)
	c := &Call{Pointer: NoReg}
	var err error
	if p.at("(") {
		if c.Results, err = p.parseActuals(); err != nil {
			return nil, err
		}
		if err := p.expect(","); err != nil {
			return nil, err
		}
	}
	target, err := p.parseName()
	if err != nil {
		return nil, err
	}
	switch {
	case target.Kind == Address && target.Of == FunctionAddr:
		c.Target = target.Func
	case target.Kind == Reg:
		c.Pointer = target.Reg
	default:
		return nil, p.errorf("call of unknown function %s", target.Name)
	}
	if p.accept(",") && p.at("(") {
		if c.Args, err = p.parseActuals(); err != nil {
			return nil, err
		}
		p.accept(",")
	}
	if !p.at(";") {
		if err := p.parseCallProto(c); err != nil {
			return nil, err
		}
	}
	return c, p.checkCall(c)
}

func (p *parser) parseCallProto(c *Call) error {
	name, err := p.expectWord()
	if err != nil {
		return err
	}
	sym := p.fn.lookup(name)
	if sym == nil || sym.kind != symProto {
		return p.errorf("call prototype %s is unknown", name)
	}
	c.Proto = sym.proto
	return nil
}

// checkCall compares the number of actual with that of formal parameters.
func (p *parser) checkCall(c *Call) error {
	formal := c.Target
	if formal == nil {
		formal = c.Proto
	}
	if formal == nil {
		return p.errorf("indirect call without prototype")
	}
	if len(formal.Params) != len(c.Args) || len(formal.Results) != len(c.Results) {
		return p.errorf("call of %s with %d arguments and %d results, declared with %d and %d",
			formal.Name,
			len(c.Args), len(c.Results), len(formal.Params), len(formal.Results))
	}
	if c.Target != nil && c.Target.Entry {
		return p.errorf("call of kernel %s", c.Target.Name)
	}
	return p.expect(";")
}

// parseActuals reads "(a, b)".
func (p *parser) parseActuals() ([]Operand, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var args []Operand
	for !p.accept(")") {
		arg, err := p.parseOperand()
		if err != nil {
			return nil, err
		}
		p.takeBody(operandBytes)
		args = append(args, arg)
		if !p.accept(",") && !p.at(")") {
			return nil, p.errorf("call: got %q", p.peek())
		}
	}
	return args, nil
}
