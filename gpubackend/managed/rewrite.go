// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"strings"

	"github.com/paracuda/paracuda/gpubackend/ptxlex"
)

// rewriter collects the edits of a text.
type rewriter struct {
	*scanner
	listing  *listing
	variable map[string]int      // by name
	declared map[int]declaration // by the place of its ".global"
	uses     int
	// Of the function body at hand.
	registers map[address]int
	load      []address
}

// rewrite makes the edits.
func (l *listing) rewrite(found []declaration) error {
	r := &rewriter{
		scanner: newScanner(l.text), listing: l,
		variable: make(map[string]int, len(found)), declared: make(map[int]declaration, len(found)),
	}
	for i, d := range found {
		r.variable[d.name] = i
		r.declared[d.global] = d
	}
	for !r.ended() {
		if err := r.statement(); err != nil {
			return err
		}
	}
	if r.err != nil {
		return r.errorf("")
	}
	return nil
}

// edit adds an edit. The edit at a function's beginning is added before those in its body. If mem
// refuses, scanning ends.
func (r *rewriter) edit(e edit) {
	if err := r.listing.mem.Take(editBytes + 2*uint64(len(e.text))); err != nil && r.err == nil {
		r.err = err
		r.at, r.next = lexeme{}, lexeme{}
	}
	r.listing.edits = append(r.listing.edits, e)
}

// managed tells whether the current token is a managed variable's name.
func (r *rewriter) managed() (int, bool) {
	if r.at.Kind != ptxlex.Word {
		return 0, false
	}
	i, ok := r.variable[r.at.Text]
	return i, ok
}

// stray refuses the name of a variable where it can't be used.
func (r *rewriter) stray() error {
	if _, ok := r.managed(); ok {
		return r.errorf("%s isn't a variable's name here, or it is used in an unknown way",
			r.at.Text)
	}
	return nil
}

// use counts a use.
func (r *rewriter) use() error {
	if r.uses++; r.uses > maxUses {
		return r.errorf("more than %d uses of managed variables", maxUses)
	}
	return nil
}

// statement takes a statement of the module: a directive, a variable or a function.
func (r *rewriter) statement() error {
	switch {
	case r.isDot("version", "target", "address_size", "file", "loc"):
		return r.line()
	case r.isDot("entry", "func"):
		return r.function()
	case r.isDot("section"):
		return r.section()
	case r.isDot("global"):
		if d, ok := r.declared[r.at.start]; ok {
			return r.declaration(d)
		}
		return r.initialised()
	case r.isDot("const", "shared", "local"):
		return r.initialised()
	}
	if err := r.stray(); err != nil {
		return err
	}
	r.step()
	return nil
}

// line moves past a directive that ends with its line.
func (r *rewriter) line() error {
	line := r.at.Line
	r.step()
	for !r.ended() && r.at.Line == line {
		if r.at.Is("{") || r.at.Is("}") || r.at.Is(";") {
			return r.errorf("unexpected text after a directive")
		}
		// "debug" may be a variable and a target's option
		if _, ok := r.managed(); ok && !r.before[0].Is(",") {
			return r.stray()
		}
		r.step()
	}
	return nil
}

// declaration removes the declaration of a managed variable. One with initial content becomes a
// plain variable with another name.
func (r *rewriter) declaration(d declaration) error {
	v := &r.listing.code.Variables[r.variable[d.name]]
	if v.Content == "" {
		r.edit(edit{start: d.start, end: d.end, text: newlines(r.listing.text[d.start:d.end])})
		for !r.ended() && r.at.start < d.end {
			r.step()
		}
		return nil
	}
	r.edit(edit{start: d.start, end: d.global,
		text: newlines(r.listing.text[d.start:d.global]) + ".visible "})
	if d.attribute[1] > 0 {
		r.edit(edit{start: d.attribute[0], end: d.attribute[1],
			text: newlines(r.listing.text[d.attribute[0]:d.attribute[1]])})
	}
	r.edit(edit{start: d.named[0], end: d.named[1], text: v.Content})
	for !r.ended() && r.at.start < d.named[1] {
		r.step()
	}
	return r.initialised()
}

// newlines keeps the numbering of lines, which the assembler's messages use.
func newlines(gone string) string { return strings.Repeat("\n", strings.Count(gone, "\n")) }

// initialised moves past a declaration and its initial content, in which addresses may be.
func (r *rewriter) initialised() error {
	content := false
	for !r.ended() && !r.accept(";") {
		content = content || r.at.Is("=")
		if _, ok := r.managed(); !ok {
			r.step()
		} else if !content {
			return r.stray()
		} else if err := r.constant(); err != nil {
			return err
		}
	}
	return nil
}

// constant replaces an address in initial content: name or generic(name), with an offset.
func (r *rewriter) constant() error {
	i, _ := r.managed()
	s := address{variable: i}
	start, end := r.at.start, r.at.end
	inner := r.before[0].Is("(")
	if inner {
		if r.before[1].Kind != ptxlex.Word || r.before[1].Text != "generic" ||
			r.before[2].Is("(") || !r.next.Is(")") {
			return r.stray()
		}
		start, end = r.before[1].start, r.next.end
		r.step()
	}
	r.step()
	if r.at.Is("+") || r.at.Is("-") {
		var err error
		if s.offset, err = r.offset(); err != nil {
			return err
		}
		end = r.before[0].end
	}
	r.edit(edit{start: start, end: end, address: &s})
	return r.use()
}

// section reads debug information, in which addresses may be.
func (r *rewriter) section() error {
	for !r.ended() && !r.at.Is("{") {
		if err := r.stray(); err != nil {
			return err
		}
		r.step()
	}
	r.step()
	for !r.ended() && !r.accept("}") {
		if _, ok := r.managed(); !ok {
			r.step()
		} else if err := r.constant(); err != nil {
			return err
		}
	}
	return nil
}
