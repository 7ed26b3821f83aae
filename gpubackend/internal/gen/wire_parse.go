// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// wire is a parsed wire.def: its declarations in file order.
type wire struct{ decls []decl }

// decl is a constant, an enumeration or a structure, with the comment lines above it.
type decl struct {
	kind    string // const, text, enum, struct
	name    string
	value   uint64
	text    string
	doc     []string
	comment string
	members []member
}

// member is a field of a structure or a value of an enumeration.
type member struct {
	name    string
	typ     string // u8, u16, u32, s32, u64
	count   int    // 0 for a scalar, else the array's length
	value   uint64
	offset  int
	comment string
}

var typeSize = map[string]int{"u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8}

func (m member) size() int {
	if m.count == 0 {
		return typeSize[m.typ]
	}
	return typeSize[m.typ] * m.count
}

func (d decl) size() int {
	n := 0
	for _, m := range d.members {
		n += m.size()
	}
	return n
}

func parseWire(path string) (*wire, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &wireParser{w: &wire{}}
	lines, err := readLines(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, l := range lines {
		if err := p.line(l.text); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, l.number, err)
		}
	}
	return p.w, nil
}

type wireParser struct {
	w    *wire
	doc  []string
	open *decl
}

func (p *wireParser) line(text string) error {
	code, comment, _ := strings.Cut(text, "#")
	comment = strings.TrimSpace(comment)
	f := strings.Fields(strings.NewReplacer("=", " ", "{", " { ").Replace(code))
	switch {
	case len(f) == 0 && strings.HasPrefix(text, "#"):
		p.doc = append(p.doc, comment)
	case len(f) == 0:
		p.doc = nil
	case p.open != nil && f[0] == "}":
		p.w.decls = append(p.w.decls, *p.open)
		p.open = nil
	case p.open != nil:
		return p.member(f, comment)
	case f[0] == "const" && len(f) == 3:
		v, err := strconv.ParseUint(f[2], 0, 64)
		p.w.decls = append(p.w.decls,
			decl{kind: "const", name: f[1], value: v, doc: p.doc, comment: comment})
		p.doc = nil
		return err
	case f[0] == "text" && len(f) == 3:
		p.w.decls = append(p.w.decls,
			decl{kind: "text", name: f[1], text: f[2], doc: p.doc, comment: comment})
		p.doc = nil
	case (f[0] == "struct" || f[0] == "enum") && len(f) == 3:
		p.open = &decl{kind: f[0], name: f[1], doc: p.doc}
		p.doc = nil
	default:
		return fmt.Errorf("not a declaration: %q", text)
	}
	return nil
}

func (p *wireParser) member(f []string, comment string) error {
	if len(f) != 2 {
		return fmt.Errorf("not a member: %q", f)
	}
	if p.open.kind == "enum" {
		v, err := strconv.ParseUint(f[1], 0, 64)
		p.open.members = append(p.open.members, member{name: f[0], value: v, comment: comment})
		return err
	}
	m := member{typ: f[0], name: f[1], comment: comment, offset: p.open.size()}
	if name, n, ok := strings.Cut(strings.TrimSuffix(f[1], "]"), "["); ok {
		count, err := strconv.Atoi(n)
		if err != nil {
			return err
		}
		m.name, m.count = name, count
	}
	size := typeSize[m.typ]
	if size == 0 {
		return fmt.Errorf("unknown type %q", m.typ)
	}
	if m.offset%size != 0 {
		return fmt.Errorf("%s at offset %d: write out the padding before it", m.name, m.offset)
	}
	p.open.members = append(p.open.members, m)
	return nil
}
