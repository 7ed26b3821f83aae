// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// layout is a command or a record of commands.def: words, followed by tails.
type layout struct {
	name   string
	record bool
	doc    []string
	fields []field
	answer []field // of a command

	tagged bool // a record whose first word is tag
	tag    uint64

	// For a command: from cuda.def or wire.def.
	number       int
	noctx, exact bool
}

// field is a field of a layout.
type field struct {
	name    string
	typ     string // u64, u32, u8, h, in, out, tail
	kind    string // of a handle
	count   int    // of an array, else 0
	word    int    // where it begins
	high    bool   // a u32 in the upper half of its word
	comment string

	// Checks
	min, max, size number
	set            string
	optional       bool

	// For a tail: how many elements there are, by that field or a number. A buffer's elements may
	// have a size too.
	counted string
	times   number
	element number
}

// constant is a named number.
type constant struct {
	name    string
	value   uint64
	comment string
}

// commands is a parsed commands.def.
type commands struct {
	constants []constant
	layouts   []layout
}

// goType is the layout's name in Go.
func (l layout) goType() string {
	switch {
	case l.record || strings.ToUpper(l.name) == l.name:
		return camel(l.name)
	default:
		return function{symbol: l.name}.method()
	}
}

// words is the number of words before the tails.
func (l layout) words() int {
	n := 0
	if l.tagged {
		n = 1
	}
	return n + wordsOf(l.fields)
}

// wordsOf is the number of words that fields take.
func wordsOf(fields []field) int {
	n, halves := 0, 0
	for _, f := range fields {
		n += f.words()
		if f.typ == "u32" {
			halves++
		}
	}
	return n + halves/2
}

// words is the number of words that a field has to itself.
func (f field) words() int {
	switch f.typ {
	case "u64", "h":
		return max(f.count, 1)
	case "u8":
		return f.count / 8
	case "in", "out":
		return 2
	}
	return 0
}

func (f field) buffer() bool { return f.typ == "in" || f.typ == "out" }

// tails are the fields behind the words.
func (l layout) tails() (list []field) {
	for _, f := range l.fields {
		if f.typ == "tail" {
			list = append(list, f)
		}
	}
	return list
}

// number is a number and how it is written: as its constant's name if it has one.
type number struct {
	value uint64
	inGo  string
	inC   string
}

func (n number) known() bool { return n.inGo != "" }
