// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/ptxlex"
)

// Bounds on what a text may ask for.
const (
	maxText     = 256 << 20
	maxVarSize  = 1 << 32
	maxInitSize = 64 << 20
	maxParam    = cudaabi.MaxParameterBytes
	maxScopes   = 256
	maxAlign    = 1 << 16
	maxMods     = 64
)

// parser turns tokens into a Module.
type parser struct {
	tokens
	module *Module
	// initBytes is the initial content made so far.
	initBytes uint64
	fn        *functionParser
}

// Parse reads a module, and takes its memory from mem. What the module still has when Parse returns
// is the caller's to give back. The error is an *Error, or wraps budget.ErrExceeded.
func Parse(text []byte, mem *budget.Account) (*Module, error) {
	if len(text) > maxText {
		return nil, &Error{Line: 1, Msg: fmt.Sprintf("text of %d bytes is too long", len(text))}
	}
	if err := mem.Take(uint64(len(text))); err != nil {
		return nil, err
	}
	before := mem.Bytes()
	p := &parser{
		tokens: newTokens(string(text), mem),
		module: &Module{functions: make(map[string]*Function), vars: make(map[string]*Variable)},
	}
	sum := sha256.Sum256(text)
	p.module.Sum = binary.LittleEndian.Uint64(sum[:])
	err := p.parseModule()
	if err == nil {
		err = p.checkRelocs()
	}
	if p.err != nil {
		err = p.err
	}
	if err != nil {
		mem.Give(mem.Bytes() - before + uint64(len(text)))
		return nil, err
	}
	mem.Give(p.passing)
	p.module.bodies = p.bodies
	return p.module, nil
}

func (p *parser) errorf(format string, args ...any) error {
	return &Error{Line: p.peek().Line, Msg: fmt.Sprintf(format, args...)}
}

// at tells whether the next token is the given character.
func (p *parser) at(punct string) bool {
	t := p.peek()
	return t.Kind == ptxlex.Punct && t.Text == punct
}

// accept takes the given character if it is next.
func (p *parser) accept(punct string) bool {
	if !p.at(punct) {
		return false
	}
	p.skip()
	return true
}

func (p *parser) expect(punct string) error {
	if !p.accept(punct) {
		return p.errorf("%q expected, got %q", punct, p.peek())
	}
	return nil
}

// acceptDot takes the directive .word if it is next.
func (p *parser) acceptDot(word string) bool {
	if t := p.peek(); t.Kind != ptxlex.Dot || t.Text != word {
		return false
	}
	p.skip()
	return true
}

func (p *parser) expectWord() (string, error) {
	t := p.peek()
	if t.Kind != ptxlex.Word {
		return "", p.errorf("name expected, got %q", t)
	}
	p.skip()
	return t.Text, nil
}

// expectInt takes a non-negative integer that is at most limit.
func (p *parser) expectInt(limit uint64) (uint64, error) {
	t := p.peek()
	if t.Kind != ptxlex.Int || t.Value > limit {
		return 0, p.errorf("integer of at most %d expected, got %q", limit, t)
	}
	p.skip()
	return t.Value, nil
}

// parseModule reads the directives of module scope.
func (p *parser) parseModule() error {
	for {
		t := p.peek()
		if t.Kind == ptxlex.EOF {
			return p.checkHeader()
		}
		if t.Kind != ptxlex.Dot {
			if p.accept(";") {
				continue
			}
			return p.errorf("directive expected, got %q", t)
		}
		if err := p.parseDirective(t.Text); err != nil {
			return err
		}
	}
}

func (p *parser) checkHeader() error {
	m := p.module
	if m.Major == 0 {
		return p.errorf(".version missing")
	}
	if m.Target == "" {
		return p.errorf(".target missing")
	}
	return nil
}

func (p *parser) parseDirective(word string) error {
	switch word {
	case "version":
		p.skip()
		return p.parseVersion()
	case "target":
		p.skip()
		return p.parseTarget()
	case "address_size":
		p.skip()
		if t := p.next(); t.Kind != ptxlex.Int || t.Value != 64 {
			return p.errorf("address size %q not supported", t)
		}
		return nil
	case "file", "pragma", "section", "loc":
		return p.skipDebug(word)
	case "alias":
		return p.errorf(".alias not supported")
	}
	return p.parseDeclaration()
}

func (p *parser) parseVersion() error {
	t := p.next()
	major, minor, found := strings.Cut(t.Text, ".")
	var err error
	if p.module.Major, err = strconv.Atoi(major); err != nil || !found {
		return p.errorf("version %q isn't two numbers", t)
	}
	if p.module.Minor, err = strconv.Atoi(minor); err != nil {
		return p.errorf("version %q isn't two numbers", t)
	}
	if p.module.Major < 3 || p.module.Major > 9 {
		return p.errorf("PTX version %s not supported", t)
	}
	return nil
}

func (p *parser) parseTarget() error {
	name, err := p.expectWord()
	if err != nil {
		return err
	}
	p.module.Target = name
	for _, c := range []byte(strings.TrimPrefix(name, "sm_")) {
		if c < '0' || c > '9' || p.module.Arch > 1000 {
			break
		}
		p.module.Arch = p.module.Arch*10 + int(c-'0')
	}
	for p.accept(",") {
		if _, err := p.expectWord(); err != nil {
			return err
		}
	}
	return nil
}

// skipDebug moves over a directive that means nothing for execution. They end
// at a semicolon, with their section's braces, or with their line.
func (p *parser) skipDebug(word string) error {
	line := p.next().Line
	if word == "section" {
		for !p.at("{") && p.peek().Kind != ptxlex.EOF {
			p.skip()
		}
		return p.skipBraces()
	}
	if word == "pragma" {
		for p.peek().Kind != ptxlex.EOF && !p.accept(";") {
			p.skip()
		}
		return nil
	}
	for t := p.peek(); t.Kind != ptxlex.EOF && t.Line == line; t = p.peek() {
		p.skip()
	}
	return nil
}

func (p *parser) skipBraces() error {
	depth := 0
	for {
		t := p.peek()
		if t.Kind == ptxlex.EOF {
			return p.errorf("section without end")
		}
		p.skip()
		if t.Kind != ptxlex.Punct {
			continue
		}
		if t.Text == "{" {
			depth++
		} else if t.Text == "}" {
			if depth--; depth == 0 {
				return nil
			}
		}
	}
}

// linkages are the linking directives.
var linkages = map[string]Linkage{"visible": Visible, "weak": Weak, "extern": Extern,
	"common": Common}

// parseDeclaration reads a variable or function with its linking directive.
func (p *parser) parseDeclaration() error {
	linkage := Internal
	t := p.peek()
	if l, ok := linkages[t.Text]; ok {
		linkage = l
		p.skip()
		t = p.peek()
	}
	if t.Kind == ptxlex.Dot && (t.Text == "entry" || t.Text == "func") {
		p.skip()
		return p.parseFunction(t.Text == "entry", linkage)
	}
	vars, err := p.parseVars(linkage)
	if err != nil {
		return err
	}
	for _, v := range vars {
		if err := p.addModuleVar(v); err != nil {
			return err
		}
	}
	return nil
}

// addModuleVar adds v, which may be the definition of an extern declaration.
func (p *parser) addModuleVar(v *Variable) error {
	if v.Space != Global && v.Space != Const && v.Space != Shared {
		return &Error{Line: v.Line,
			Msg: fmt.Sprintf("%v variable %s at module scope not supported", v.Space, v.Name)}
	}
	old := p.module.vars[v.Name]
	if old == nil && p.module.functions[v.Name] == nil {
		p.module.vars[v.Name] = v
		p.module.Vars = append(p.module.Vars, v)
		return nil
	}
	if old == nil || old.Space != v.Space || old.Linkage != Extern && v.Linkage != Extern {
		return &Error{Line: v.Line, Msg: fmt.Sprintf("%s declared twice", v.Name)}
	}
	if old.Linkage == Extern {
		*old = *v
	}
	return nil
}

// checkRelocs makes sure that the symbols in initial contents exist.
func (p *parser) checkRelocs() error {
	for _, v := range p.module.Vars {
		for _, r := range v.Relocs {
			if p.module.vars[r.Symbol] == nil && p.module.functions[r.Symbol] == nil {
				return &Error{Line: v.Line,
					Msg: fmt.Sprintf("%s refers to unknown %s", v.Name, r.Symbol)}
			}
		}
	}
	return nil
}
