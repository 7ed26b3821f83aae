// SPDX-License-Identifier: Apache-2.0

// Package layout turns the description of CUDA's own structures and numbers into code: a Go package
// of typed access to bytes, C declarations, and a C program that compares them with a cuda.h. It
// knows nothing about the wire format or functions, which are in package main.
//
// Files: layout.go (structures and numbers), parse.go (the description), names.go, outputs.go,
// write_go.go, write_c.go, write_check.go (the program that compares).
package layout

import "fmt"

// Description is cuda_layout.def, cuda_values.def and errors.tsv.
type Description struct {
	handles map[string]bool
	order   []string     // of the handles
	structs []*structure // in the files' order: each after those that it contains
	byName  map[string]*structure
	groups  []*group
	results []result
}

// structure is a structure of CUDA.
type structure struct {
	name, goName string
	size         int
	since        int  // CUDA_VERSION; 0: every header that is supported has it
	host         bool // the host's C has it too
	fields       []*field
	halves       []halves
}

// field is a member, which may lie in structures that have no type of their own.
type field struct {
	offset int
	typ    fieldType
	count  int // of an array, else 0
	path   string
	goName string
	since  int
}

// halves says that the fields of two sides are alike.
type halves struct{ first, second, goName string }

// fieldType is the type of a field, or of an element of an array.
type fieldType struct {
	size  int
	align int
	goTyp string     // "" for a structure
	c     string     // the declaration without the name
	inner *structure // of a structure
}

// group is a group of numbers whose names begin alike.
type group struct {
	prefix, goPrefix string // both "" for limits
	host             bool   // the host's C has them too
	values           []value
}

type value struct {
	number       string // as written
	name, goName string
	since        int
}

// result is a line of errors.tsv.
type result struct {
	number int
	name   string
	text   string
	since  int
}

func (f *field) bytes() int { return f.typ.size * max(1, f.count) }
func (f *field) end() int   { return f.offset + f.bytes() }

// check refuses what can't be CUDA's layout: fields that are misplaced or beyond the structure.
func (s *structure) check() error {
	names := map[string]bool{}
	align := 1
	for _, f := range s.fields {
		align = max(align, f.typ.align)
		switch {
		case names[f.goName]:
			return fmt.Errorf("%s: two fields are %s in Go", s.name, f.goName)
		case f.end() > s.size:
			return fmt.Errorf("%s.%s ends at %d, beyond the structure's %d", s.name, f.path,
				f.end(), s.size)
		case f.offset%f.typ.align != 0:
			return fmt.Errorf("%s.%s at %d isn't aligned", s.name, f.path, f.offset)
		}
		names[f.goName] = true
	}
	if s.size%align != 0 {
		return fmt.Errorf("%s has %d bytes, which isn't a multiple of %d", s.name, s.size, align)
	}
	return nil
}

// align is what the structure's address must be a multiple of.
func (s *structure) align() int {
	align := 1
	for _, f := range s.fields {
		align = max(align, f.typ.align)
	}
	return align
}

// side returns the fields of one half, by what follows the prefix in Go, and where the half begins.
func (s *structure) side(prefix string) (map[string]*field, int) {
	fields, start := map[string]*field{}, s.size
	for _, f := range s.fields {
		if rest, ok := cutPrefix(f.goName, prefix); ok {
			fields[rest] = f
			start = min(start, f.offset)
		}
	}
	return fields, start
}

// checkHalves says whether two sides have the same fields at the same places.
func (s *structure) checkHalves(h halves) error {
	a, at := s.side(h.first)
	b, bt := s.side(h.second)
	if len(a) == 0 || len(a) != len(b) {
		return fmt.Errorf("%s: %s and %s have different fields", s.name, h.first, h.second)
	}
	for name, f := range a {
		g := b[name]
		if g == nil || g.offset-bt != f.offset-at || g.typ.goTyp != f.typ.goTyp ||
			g.count != f.count {
			return fmt.Errorf("%s: %s%s and %s%[3]s differ", s.name, h.first, name, h.second)
		}
	}
	return nil
}
