// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// maxNames bounds the search for names that a text doesn't use.
const maxNames = 64

// address is the address of a variable plus an offset.
type address struct {
	variable int
	offset   uint64
}

// edit replaces a part of the text.
type edit struct {
	start, end int
	text       string
	address    *address  // its number follows the text
	load       []address // the registers of a function body, in order
}

// editBytes is how much an edit counts for, with what it adds to the text: a register's declaration
// and load have less than 128 bytes.
var editBytes = 2*uint64(reflect.TypeFor[edit]().Size()+reflect.TypeFor[address]().Size()) + 2*128

// listing is a text with its edits, in order.
type listing struct {
	text   string
	prefix string // of names that the text doesn't use
	edits  []edit
	code   *Code
	mem    *budget.Account
}

// newPTX finds the managed variables of a text, or all plain ones, and all uses of them. The lists,
// and the text that is placed, are taken from mem.
func newPTX(text []byte, plain bool, mem *budget.Account) (*Code, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("text of %d bytes: %w", len(text), ErrUnsupported)
	}
	if err := mem.Take(uint64(len(text))); err != nil {
		return nil, err
	}
	l := &listing{text: string(text), mem: mem}
	found, err := declarations(l.text, plain)
	if err != nil {
		return nil, err
	}
	if l.prefix, err = unused(l.text); err != nil {
		return nil, err
	}
	variables := make([]Variable, len(found))
	for i, d := range found {
		variables[i] = Variable{Name: d.name, Size: d.size, align: d.align}
		if d.initial {
			variables[i].Content = fmt.Sprintf("%si%d", l.prefix, i)
		}
	}
	if l.code, err = newCode("PTX", variables); err != nil {
		return nil, err
	}
	if len(found) > 0 {
		if err := mem.Take(uint64(len(text))); err != nil {
			return nil, err
		}
		if err := l.rewrite(found); err != nil {
			return nil, err
		}
	}
	l.code.place = l.place
	return l.code, nil
}

// unused returns the beginning of names that occurs nowhere in a text.
func unused(text string) (string, error) {
	for i := range maxNames {
		prefix := fmt.Sprintf("managed%d_", i)
		if !strings.Contains(text, prefix) {
			return prefix, nil
		}
	}
	return "", fmt.Errorf("names: %w", ErrUnsupported)
}

// place writes the text with its edits.
func (l *listing) place(base uint64) []byte {
	value := func(s address) uint64 { return base + l.code.Variables[s.variable].Offset + s.offset }
	out := make([]byte, 0, len(l.text)+64*len(l.edits))
	at := 0
	for i := range l.edits {
		e := &l.edits[i]
		out = append(append(out, l.text[at:e.start]...), e.text...)
		at = e.end
		if e.address != nil {
			out = fmt.Appendf(out, "%#x", value(*e.address))
		}
		if len(e.load) > 0 {
			out = fmt.Appendf(out, " .reg .b64 %s<%d>;", l.register(""), len(e.load))
		}
		for n, s := range e.load {
			out = fmt.Appendf(out, " mov.u64 %s, %#x;", l.register(n), value(s))
		}
	}
	return append(out, l.text[at:]...)
}

// register names one of the registers that hold addresses.
func (l *listing) register(n any) string { return fmt.Sprintf("%%%s%v", l.prefix, n) }
