// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"errors"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/ptxlex"
)

// parseBody reads a function's instructions and declarations.
func (p *parser) parseBody(f *Function) error {
	p.fn = &functionParser{f: f, tokens: &p.tokens}
	defer func() { p.fn = nil }()
	if err := p.openScope(); err != nil {
		return err
	}
	for i, param := range f.Params {
		if err := p.define(param.Name, &symbol{kind: symParam, index: i}); err != nil {
			return err
		}
	}
	for i, param := range f.Results {
		if err := p.define(param.Name, &symbol{kind: symResult, index: i}); err != nil {
			return err
		}
	}
	if err := p.expect("{"); err != nil {
		return err
	}
	return p.parseStatements()
}

// parseStatements reads up to the brace that ends the function.
func (p *parser) parseStatements() error {
	for {
		t := p.peek()
		switch {
		case t.Kind == ptxlex.EOF:
			return p.errorf("function %s doesn't end", p.fn.f.Name)
		case p.accept("{"):
			if err := p.openScope(); err != nil {
				return err
			}
		case p.accept("}"):
			if err := p.closeScope(); err != nil {
				return err
			}
			if len(p.fn.scopes) == 0 {
				return nil
			}
		case p.accept(";"):
		case t.Kind == ptxlex.Dot:
			if err := p.parseLocalDirective(t.Text); err != nil {
				return err
			}
		case t.Kind == ptxlex.Word && p.peekNext().Is(":"):
			p.skip()
			p.skip()
			if err := p.parseLabel(t.Text); err != nil {
				return err
			}
		default:
			if err := p.parseInst(); err != nil {
				return err
			}
		}
	}
}

func (p *parser) parseLocalDirective(word string) error {
	switch word {
	case "loc", "file", "pragma", "section":
		return p.skipDebug(word)
	case "reg":
		p.skip()
		return p.parseRegisters()
	}
	linkage := Internal
	if l, ok := linkages[word]; ok {
		linkage = l
		p.skip()
	}
	vars, err := p.parseVars(linkage)
	if err != nil {
		return err
	}
	for _, v := range vars {
		if v.Space == Global || v.Space == Const {
			return p.errorf("%v variable %s in a function not supported", v.Space, v.Name)
		}
		if v.Space == Param && v.Size > maxParam {
			return p.errorf("parameters of more than %d bytes", maxParam)
		}
		sym := &symbol{kind: symVar, index: len(p.fn.f.Vars)}
		if err := p.define(v.Name, sym); err != nil {
			return err
		}
		p.fn.f.Vars = append(p.fn.f.Vars, v)
	}
	return nil
}

// parseRegisters reads ".b32 %r<5>, %x;" after .reg.
func (p *parser) parseRegisters() error {
	t := p.next()
	typ := TypeOf(t.Text)
	if t.Kind != ptxlex.Dot || typ == NoType {
		return p.errorf("registers of type %q not supported", t)
	}
	s := p.fn.scopes[len(p.fn.scopes)-1]
	for {
		name, err := p.expectWord()
		if err != nil {
			return err
		}
		if p.accept("<") {
			count, err := p.expectInt(1 << 30)
			if err != nil {
				return err
			}
			if err := p.expect(">"); err != nil {
				return err
			}
			p.takePassing(symbolBytes)
			s.ranges[name] = registerRange{typ: typ, count: count}
		} else if s.names[name] != nil {
			return p.errorf("%s declared twice", name)
		} else {
			p.fn.addRegister(s, name, typ)
		}
		if !p.accept(",") {
			return p.expect(";")
		}
	}
}

// parseLabel takes what follows "name:": nothing, a list of branch targets, or
// a call prototype.
func (p *parser) parseLabel(name string) error {
	switch {
	case p.acceptDot("branchtargets"):
		sym := &symbol{kind: symTargets}
		for {
			label, err := p.expectWord()
			if err != nil {
				return err
			}
			p.takePassing(wordBytes)
			sym.labels = append(sym.labels, label)
			if !p.accept(",") {
				break
			}
		}
		if err := p.expect(";"); err != nil {
			return err
		}
		return p.define(name, sym)
	case p.acceptDot("callprototype"):
		proto, err := p.parsePrototype()
		if err != nil {
			return err
		}
		return p.define(name, &symbol{kind: symProto, proto: proto})
	case p.acceptDot("calltargets"):
		return p.errorf(".calltargets not supported")
	}
	return p.define(name, &symbol{kind: symLabel, index: len(p.fn.f.Body)})
}

// parsePrototype reads "(.param .b32 _) _ (.param .b64 _);".
func (p *parser) parsePrototype() (*Function, error) {
	p.takePassing(functionBytes)
	f := &Function{Line: p.peek().Line}
	var err error
	if p.at("(") {
		if f.Results, _, err = p.parseParams(); err != nil {
			return nil, err
		}
	}
	if f.Name, err = p.expectWord(); err != nil {
		return nil, err
	}
	if p.at("(") {
		if f.Params, f.ParamSize, err = p.parseParams(); err != nil {
			return nil, err
		}
	}
	if err := p.parseTuning(f); err != nil {
		return nil, err
	}
	return f, p.expect(";")
}

// parseInst reads one instruction with its guard.
func (p *parser) parseInst() error {
	in := Inst{Line: p.peek().Line, Guard: NoReg}
	if p.accept("@") {
		in.GuardNot = p.accept("!")
		name, err := p.expectWord()
		if err != nil {
			return err
		}
		sym := p.fn.lookup(name)
		if sym == nil || sym.kind != symRegister || p.fn.f.Regs[sym.index].Type != Pred {
			return p.errorf("guard %s isn't a predicate", name)
		}
		in.Guard = sym.index
	}
	var err error
	if in.Op, err = p.expectWord(); err != nil {
		return err
	}
	for p.peek().Kind == ptxlex.Dot {
		if len(in.Mods) == maxMods {
			return p.errorf("instruction of more than %d words", maxMods)
		}
		p.takeBody(wordBytes)
		in.Mods = append(in.Mods, p.next().Text)
	}
	if in.Op == "call" {
		in.Call, err = p.parseCall()
	} else {
		err = p.parseArgs(&in)
	}
	if err != nil {
		return naming(&in, err)
	}
	p.takeBody(instBytes)
	p.fn.f.Body = append(p.fn.f.Body, in)
	return nil
}

// naming puts the name of the instruction before an error in its operands.
func naming(in *Inst, err error) error {
	var reason *Error
	if !errors.As(err, &reason) || strings.HasPrefix(reason.Msg, in.Name()) {
		return err
	}
	return &Error{Line: reason.Line, Msg: in.Name() + ": " + reason.Msg}
}

// parseArgs reads the operands of in up to the semicolon.
func (p *parser) parseArgs(in *Inst) error {
	if p.accept(";") {
		return nil
	}
	for {
		arg, err := p.parseOperand()
		if err != nil {
			return err
		}
		if arg.Kind == Label {
			s := p.fn.scopes[len(p.fn.scopes)-1]
			p.takePassing(fixupBytes)
			s.fixups = append(s.fixups, fixup{len(p.fn.f.Body), len(in.Args), arg.Name, in.Line})
		}
		p.takeBody(operandBytes)
		in.Args = append(in.Args, arg)
		if !p.accept(",") {
			if !p.at(";") {
				return p.errorf("%s: %q after an operand", in.Name(), p.peek())
			}
			p.skip()
			return nil
		}
	}
}
