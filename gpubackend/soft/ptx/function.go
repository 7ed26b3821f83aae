// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/ptxlex"
)

// parseFunction reads an entry or device function from after .entry or .func.
func (p *parser) parseFunction(entry bool, linkage Linkage) error {
	p.take(functionBytes)
	f := &Function{Entry: entry, Linkage: linkage, Line: p.peek().Line}
	var err error
	if !entry {
		if err := p.skipAttributes(); err != nil {
			return err
		}
		if p.at("(") {
			if f.Results, _, err = p.parseParams(); err != nil {
				return err
			}
		}
	}
	if f.Name, err = p.expectWord(); err != nil {
		return err
	}
	if p.at("(") {
		if f.Params, f.ParamSize, err = p.parseParams(); err != nil {
			return err
		}
	}
	if err := p.parseTuning(f); err != nil {
		return err
	}
	if f, err = p.declare(f); err != nil {
		return err
	}
	if p.accept(";") {
		return nil
	}
	if f.Defined {
		return p.errorf("function %s defined twice", f.Name)
	}
	f.Defined = true
	return p.parseBody(f)
}

// skipAttributes moves over ".attribute(...)" of a function.
func (p *parser) skipAttributes() error {
	for p.acceptDot("attribute") {
		var h varHead
		if err := p.parseAttribute(&h); err != nil {
			return err
		}
	}
	return nil
}

// declare enters f, or completes the declaration that calls may refer to.
func (p *parser) declare(f *Function) (*Function, error) {
	if p.module.vars[f.Name] != nil {
		return nil, p.errorf("%s declared twice", f.Name)
	}
	old := p.module.functions[f.Name]
	if old == nil {
		p.module.functions[f.Name] = f
		p.module.Functions = append(p.module.Functions, f)
		return f, nil
	}
	if len(old.Params) != len(f.Params) || len(old.Results) != len(f.Results) ||
		old.Entry != f.Entry {
		return nil, p.errorf("function %s declared twice, differently", f.Name)
	}
	if !old.Defined {
		old.Params, old.Results, old.ParamSize = f.Params, f.Results, f.ParamSize
		old.MaxThreads, old.ReqThreads, old.MinBlocks = f.MaxThreads, f.ReqThreads, f.MinBlocks
		old.Line = f.Line
		if old.Linkage == Extern {
			old.Linkage = f.Linkage
		}
	}
	return old, nil
}

// parseParams reads "(.param .b32 a, .param .align 8 .b8 b[16])" and lays the
// parameters out.
func (p *parser) parseParams() ([]Parameter, int, error) {
	if err := p.expect("("); err != nil {
		return nil, 0, err
	}
	var params []Parameter
	offset := uint64(0)
	for !p.accept(")") {
		if !p.acceptDot("param") {
			return nil, 0, p.errorf("parameter %q not supported", p.peek())
		}
		head := varHead{space: Param, vector: 1}
		if err := p.parseParamHead(&head); err != nil {
			return nil, 0, err
		}
		v, err := p.parseDeclarator(varHead{space: Param, linkage: Extern, typ: head.typ,
			vector: head.vector, align: head.align})
		if err != nil {
			return nil, 0, err
		}
		offset = alignUp(offset, uint64(v.Align))
		if offset+v.Size > maxParam {
			return nil, 0, p.errorf("parameters of more than %d bytes", maxParam)
		}
		p.take(parameterBytes)
		params = append(params,
			Parameter{Name: v.Name, Type: v.Type, Align: v.Align, Offset: int(offset),
				Size: int(v.Size)})
		offset += v.Size
		if !p.accept(",") && !p.at(")") {
			return nil, 0, p.errorf("parameter list: got %q", p.peek())
		}
	}
	return params, int(offset), nil
}

// parseParamHead is parseVarHead for parameters, where ".ptr .space .align n"
// after the type describes what is pointed to.
func (p *parser) parseParamHead(h *varHead) error {
	if err := p.parseVarHead(h); err != nil {
		return err
	}
	// The alignment of the pointed-to object is read like one of the parameter;
	// only byte arrays and vectors have one of their own.
	if size := h.typ.Size() * h.vector; h.typ != B8 && h.align != size {
		h.align = size
	}
	return nil
}

// parseTuning reads the performance directives before a function's body.
func (p *parser) parseTuning(f *Function) error {
	for p.peek().Kind == ptxlex.Dot {
		word := p.peek().Text
		if word == "pragma" {
			if err := p.skipDebug(word); err != nil {
				return err
			}
			continue
		}
		p.skip()
		var err error
		switch word {
		case "maxntid":
			f.MaxThreads, err = p.parseThreads()
		case "reqntid":
			f.ReqThreads, err = p.parseThreads()
		case "minnctapersm", "maxnctapersm":
			var n uint64
			if n, err = p.expectInt(1 << 16); word == "minnctapersm" {
				f.MinBlocks = int(n)
			}
		case "maxnreg":
			var n uint64
			n, err = p.expectInt(1 << 16)
			f.MaxRegisters = int(n)
		case "noreturn":
		default:
			return p.errorf("directive .%s of a function not supported", word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) parseThreads() ([3]int, error) {
	threads := [3]int{1, 1, 1}
	for i := range threads {
		n, err := p.expectInt(1 << 16)
		if err != nil {
			return threads, err
		}
		threads[i] = int(n)
		if !p.accept(",") {
			break
		}
	}
	return threads, nil
}

// symbolKind says what a name of function scope is.
type symbolKind uint8

const (
	symRegister symbolKind = iota
	symVar
	symParam
	symResult
	symLabel
	symTargets
	symProto
)

// symbol is a name of function scope. index counts registers, variables,
// parameters or instructions; the rest is for .branchtargets and prototypes.
type symbol struct {
	kind   symbolKind
	index  int
	labels []string
	proto  *Function
}

// registerRange is "%r<5>": names that become registers when they are used.
type registerRange struct {
	typ   Type
	count uint64
}

// scope is a block in braces.
type scope struct {
	names  map[string]*symbol
	ranges map[string]registerRange
	fixups []fixup
}

// fixup is a label to be filled in when its scope ends: an operand, or the
// targets of a brx.idx when operand is -1.
type fixup struct {
	inst    int
	operand int
	name    string
	line    int
}

// functionParser holds the scopes of the function being read.
type functionParser struct {
	f      *Function
	scopes []*scope
	tokens *tokens
}

func newScope() *scope {
	return &scope{names: make(map[string]*symbol), ranges: make(map[string]registerRange)}
}

// lookup finds a name, the innermost scope first, making a register of a range
// on first use.
func (fp *functionParser) lookup(name string) *symbol {
	stem := strings.TrimRight(name, "0123456789")
	for i := len(fp.scopes) - 1; i >= 0; i-- {
		s := fp.scopes[i]
		if sym := s.names[name]; sym != nil {
			return sym
		}
		if r, ok := s.ranges[stem]; ok && inRange(name[len(stem):], r.count) {
			return fp.addRegister(s, name, r.typ)
		}
	}
	return nil
}

// inRange tells whether digits is the number of a register below count.
func inRange(digits string, count uint64) bool {
	if digits == "" || len(digits) > 9 || digits[0] == '0' && len(digits) > 1 {
		return false
	}
	n := uint64(0)
	for _, c := range []byte(digits) {
		n = n*10 + uint64(c-'0')
	}
	return n < count
}

func (fp *functionParser) addRegister(s *scope, name string, typ Type) *symbol {
	fp.tokens.take(registerBytes)
	fp.tokens.takePassing(symbolBytes)
	sym := &symbol{kind: symRegister, index: len(fp.f.Regs)}
	fp.f.Regs = append(fp.f.Regs, Register{Name: name, Type: typ})
	s.names[name] = sym
	return sym
}

// define enters a name into the innermost scope.
func (p *parser) define(name string, sym *symbol) error {
	s := p.fn.scopes[len(p.fn.scopes)-1]
	if s.names[name] != nil {
		return p.errorf("%s declared twice", name)
	}
	p.takePassing(symbolBytes)
	s.names[name] = sym
	return nil
}

// openScope and closeScope bracket a block; closing resolves its labels.
func (p *parser) openScope() error {
	if len(p.fn.scopes) >= maxScopes {
		return p.errorf("blocks nested too deep")
	}
	p.takePassing(scopeBytes)
	p.fn.scopes = append(p.fn.scopes, newScope())
	return nil
}

func (p *parser) closeScope() error {
	fp := p.fn
	s := fp.scopes[len(fp.scopes)-1]
	fp.scopes = fp.scopes[:len(fp.scopes)-1]
	for _, fix := range s.fixups {
		done, err := p.resolve(s, fix)
		if err != nil {
			return err
		}
		if done {
			continue
		}
		if len(fp.scopes) == 0 {
			return &Error{Line: fix.line, Msg: fmt.Sprintf("unknown name %s", fix.name)}
		}
		outer := fp.scopes[len(fp.scopes)-1]
		if p.takePassing(fixupBytes); p.err != nil {
			return p.err
		}
		outer.fixups = append(outer.fixups, fix)
	}
	return nil
}

// resolve fills in a label if it belongs to scope s.
func (p *parser) resolve(s *scope, fix fixup) (bool, error) {
	sym := s.names[fix.name]
	if sym == nil {
		return false, nil
	}
	in := &p.fn.f.Body[fix.inst]
	switch {
	case sym.kind == symLabel && fix.operand >= 0:
		in.Args[fix.operand].Index = sym.index
		return true, nil
	case sym.kind == symTargets && fix.operand >= 0:
		for _, name := range sym.labels {
			label := s.names[name]
			if label == nil || label.kind != symLabel {
				return false, &Error{Line: fix.line, Msg: fmt.Sprintf("unknown label %s", name)}
			}
			if p.takeBody(targetBytes); p.err != nil {
				return false, p.err
			}
			in.Targets = append(in.Targets, label.index)
		}
		return true, nil
	}
	return false, &Error{Line: fix.line, Msg: fmt.Sprintf("%s isn't a label", fix.name)}
}
