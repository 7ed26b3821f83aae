// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	structures "github.com/paracuda/paracuda/gpubackend/internal/gen/layout"
)

// parseCommands reads commands.def. Functions are joined with a, the protocol's own ops with w. The
// sizes of structures come from w; those of CUDA's own, and limits, from cuda.
func parseCommands(
	path string, r io.Reader, a *api, w *wire, cuda map[string]structures.Number,
) (*commands, error) {
	p := &commandParser{out: &commands{}, api: a, ops: w.ops(), numbers: map[string]number{}}
	w.sizes(p.numbers)
	for name, n := range cuda {
		p.numbers[name] = number{n.Value, "cudaabi." + n.InGo, n.InC}
	}
	lines, err := readLines(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	n := 0
	for _, l := range lines {
		n = l.number
		if err := p.line(l.text); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", path, n, err)
	}
	return p.out, nil
}

// ops returns the numbers of the protocol's own commands, by name.
func (w *wire) ops() map[string]int {
	m := map[string]int{}
	for _, d := range w.decls {
		if d.kind == "enum" && d.name == "op" {
			for _, v := range d.members {
				m[v.name] = int(v.value)
			}
		}
	}
	return m
}

// sizes adds the sizes of the structures, by name.
func (w *wire) sizes(to map[string]number) {
	for _, d := range w.decls {
		if d.kind == "struct" {
			to[d.name] = number{uint64(d.size()), "wire." + camel(d.name) + "Size",
				"PARACUDA_SIZEOF_" + strings.ToUpper(d.name)}
		}
	}
}

type commandParser struct {
	out     *commands
	api     *api
	ops     map[string]int
	numbers map[string]number // by name
	doc     []string
	open    *layout
	in      *[]field // where fields go
}

func (p *commandParser) line(text string) error {
	code, comment, _ := strings.Cut(text, "#")
	comment = strings.TrimSpace(comment)
	f := strings.Fields(code)
	switch {
	case len(f) == 0 && strings.HasPrefix(text, "#"):
		p.doc = append(p.doc, comment)
		return nil
	case len(f) == 0:
		p.doc = nil
		return nil
	case p.open != nil && f[0] == "}":
		return p.close(f[1:])
	case p.open != nil:
		return p.field(f, comment)
	}
	doc := p.doc
	p.doc = nil
	switch f[0] {
	case "const":
		return p.constant(f[1:], comment)
	case "command", "record":
		if len(f) < 3 || f[len(f)-1] != "{" {
			return fmt.Errorf("want %s NAME ... {", f[0])
		}
		return p.begin(f[0] == "record", f[1], f[2:len(f)-1], doc)
	}
	return fmt.Errorf("not a declaration: %q", f[0])
}

func (p *commandParser) constant(f []string, comment string) error {
	if len(f) != 2 {
		return fmt.Errorf("want const NAME VALUE")
	}
	if _, ok := p.numbers[f[0]]; ok {
		return fmt.Errorf("a second constant %s", f[0])
	}
	v, err := strconv.ParseUint(f[1], 0, 64)
	p.numbers[f[0]] = number{v, camel(f[0]), "PARACUDA_" + f[0]}
	p.out.constants = append(p.out.constants, constant{f[0], v, comment})
	return err
}

// number reads a number, or the name of a constant, a limit or a structure.
func (p *commandParser) number(s string) (number, error) {
	if n, ok := p.numbers[s]; ok {
		return n, nil
	}
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return number{}, fmt.Errorf("%s is neither a number, a constant nor a structure", s)
	}
	return number{v, s, s}, nil
}

func (p *commandParser) begin(record bool, name string, rest []string, doc []string) error {
	for _, l := range p.out.layouts {
		if l.name == name {
			return fmt.Errorf("a second %s", name)
		}
	}
	p.open = &layout{name: name, record: record, doc: doc}
	p.in = &p.open.fields
	if record {
		return p.beginRecord(rest)
	}
	return p.beginCommand(rest)
}

func (p *commandParser) beginRecord(rest []string) (err error) {
	if len(rest) > 1 {
		return fmt.Errorf("want record NAME [VALUE] {")
	}
	if len(rest) == 1 {
		var n number
		n, err = p.number(rest[0])
		p.open.tagged, p.open.tag = true, n.value
	}
	return err
}

func (p *commandParser) beginCommand(flags []string) error {
	l := p.open
	if n, ok := p.ops[l.name]; ok {
		l.number = n
		for _, f := range flags {
			switch f {
			case "noctx":
				l.noctx = true
			case "exact":
				l.exact = true
			default:
				return fmt.Errorf("unknown flag %q", f)
			}
		}
		return nil
	}
	if len(flags) > 0 {
		return fmt.Errorf("the flags of %s are in cuda.def", l.name)
	}
	for _, f := range p.api.functions {
		if f.symbol == l.name && f.class == "raw" {
			l.number, l.noctx, l.exact = f.number, f.noctx, f.exact
			return nil
		}
	}
	return fmt.Errorf("%s is neither a function of class raw nor an op", l.name)
}

// close ends the fields, or begins those of the answer.
func (p *commandParser) close(rest []string) error {
	l := p.open
	if err := place(*p.in, l.tagged && p.in == &l.fields); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	switch {
	case len(rest) == 2 && rest[0] == "answer" && rest[1] == "{" && !l.record && p.in == &l.fields:
		p.in = &l.answer
		return nil
	case len(rest) > 0:
		return fmt.Errorf("unexpected %q", strings.Join(rest, " "))
	}
	p.out.layouts = append(p.out.layouts, *l)
	p.open, p.in = nil, nil
	return nil
}

// place gives fields their words.
func place(fields []field, tagged bool) error {
	word, half, tail := 0, false, false
	if tagged {
		word = 1
	}
	for i := range fields {
		f := &fields[i]
		if f.typ == "tail" {
			tail = true
			continue
		}
		if tail {
			return fmt.Errorf("%s comes after a tail", f.name)
		}
		if half && f.typ != "u32" {
			return fmt.Errorf("%s comes after half a word: write out the padding", f.name)
		}
		f.word = word
		word += f.words()
		if f.typ == "u32" {
			f.high = half
			if half {
				word++
			}
			half = !half
		}
	}
	if half {
		return fmt.Errorf("half a word at the end: write out the padding")
	}
	return nil
}

func (p *commandParser) field(f []string, comment string) error {
	if len(f) < 2 {
		return fmt.Errorf("want TYPE NAME")
	}
	x := field{typ: f[0], name: f[1], comment: comment}
	x.typ, x.kind, _ = strings.Cut(x.typ, ".")
	name, n, array := strings.Cut(strings.TrimSuffix(x.name, "]"), "[")
	if array {
		count, err := p.number(n)
		if err != nil {
			return err
		}
		x.name, x.count = name, int(count.value)
	}
	for _, y := range *p.in {
		if y.name == x.name {
			return fmt.Errorf("a second field %s", x.name)
		}
	}
	rest, err := p.typed(&x, f[2:])
	if err != nil {
		return fmt.Errorf("%s: %w", x.name, err)
	}
	if err := p.checks(&x, rest); err != nil {
		return fmt.Errorf("%s: %w", x.name, err)
	}
	*p.in = append(*p.in, x)
	return nil
}

// typed looks at a field's type and returns what is left of its line.
func (p *commandParser) typed(x *field, rest []string) ([]string, error) {
	switch {
	case x.typ == "h" && x.kind == "", x.typ != "h" && x.kind != "":
		return nil, fmt.Errorf("want h.KIND for a handle")
	case x.typ == "h" && !p.api.names(x.kind):
		return nil, fmt.Errorf("there is no kind %q", x.kind)
	case x.typ == "u8" && (x.count == 0 || x.count%8 != 0):
		return nil, fmt.Errorf("the number of bytes must be a multiple of 8")
	case x.count > 0 && x.typ != "u8" && x.typ != "u64":
		return nil, fmt.Errorf("an array of %s: only u8 and u64 have arrays", x.typ)
	}
	switch x.typ {
	case "u64", "u32", "u8", "h":
		return rest, nil
	case "in", "out":
		if p.open.record || p.in == &p.open.answer {
			return nil, fmt.Errorf("only a command has buffers")
		}
		return rest, nil
	case "tail":
		if p.in == &p.open.answer {
			return nil, fmt.Errorf("an answer has no tail")
		}
		return p.tail(x, rest)
	}
	return nil, fmt.Errorf("unknown type %q", x.typ)
}

// tail reads "COUNT [of SIZE]". COUNT must have a bound.
func (p *commandParser) tail(x *field, rest []string) (left []string, err error) {
	if len(rest) == 0 {
		return nil, fmt.Errorf("want COUNT [of SIZE]")
	}
	counted := rest[0]
	x.element = number{1, "1", "1"}
	rest = rest[1:]
	if len(rest) >= 2 && rest[0] == "of" {
		if x.element, err = p.number(rest[1]); err != nil {
			return nil, err
		}
		rest = rest[2:]
	}
	for _, y := range p.open.fields {
		if y.name == counted && (y.typ == "u64" || y.typ == "u32") && y.max.known() {
			x.counted = counted
			return rest, nil
		}
	}
	if x.times, err = p.number(counted); err != nil {
		return nil, fmt.Errorf("no field %s with a max, of type u64 or u32", counted)
	}
	return rest, nil
}

func (p *commandParser) checks(x *field, f []string) error {
	for len(f) > 0 {
		if f[0] == "optional" && x.buffer() {
			x.optional = true
			f = f[1:]
			continue
		}
		if len(f) < 2 {
			return fmt.Errorf("unknown check %q", f[0])
		}
		if err := p.check(x, f[0], f[1]); err != nil {
			return err
		}
		f = f[2:]
	}
	switch {
	case x.optional && !x.size.known():
		return fmt.Errorf("optional needs a size: without one it is optional anyway")
	case x.buffer() && x.max.known() && !x.element.known():
		return fmt.Errorf("a max needs of SIZE")
	}
	return nil
}

func (p *commandParser) check(x *field, what, value string) (err error) {
	scalar := x.count == 0 && (x.typ == "u64" || x.typ == "u32")
	var to *number
	switch {
	case what == "set" && scalar:
		x.set = value
		if !p.api.hasSet(value) {
			return fmt.Errorf("there is no set %s", value)
		}
		return nil
	case what == "max" && (scalar || x.buffer()):
		to = &x.max
	case what == "of" && x.buffer():
		to = &x.element
	case what == "min" && scalar:
		to = &x.min
	case what == "size" && x.buffer():
		to = &x.size
	default:
		return fmt.Errorf("unknown check %q", what)
	}
	*to, err = p.number(value)
	return err
}

// end checks what can only be checked for the whole file.
func (p *commandParser) end() error {
	if p.open != nil {
		return fmt.Errorf("%s has no end", p.open.name)
	}
	known := map[string]bool{}
	for _, l := range p.out.layouts {
		known[l.name] = true
	}
	for _, f := range p.api.functions {
		if f.class == "raw" && !known[f.symbol] {
			return fmt.Errorf("%s is of class raw and isn't described", f.symbol)
		}
	}
	return nil
}
