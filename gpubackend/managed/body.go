// SPDX-License-Identifier: Apache-2.0

package managed

import "github.com/paracuda/paracuda/gpubackend/ptxlex"

// function takes a function, or the declaration of one.
func (r *rewriter) function() error {
	for !r.ended() && !r.at.Is("{") {
		if err := r.stray(); err != nil {
			return err
		}
		if r.accept(";") {
			return nil
		}
		r.step()
	}
	if r.ended() {
		return nil
	}
	first := len(r.listing.edits)
	r.edit(edit{start: r.at.end, end: r.at.end})
	r.registers, r.load = map[address]int{}, nil
	if err := r.body(); err != nil {
		return err
	}
	r.listing.edits[first].load = r.load
	return nil
}

// body takes what is between a function's braces.
func (r *rewriter) body() error {
	depth := 0
	for {
		switch {
		case r.ended():
			return r.errorf("the function has no end")
		case r.at.Is("{"):
			depth++
			r.step()
		case r.at.Is("}"):
			r.step()
			if depth--; depth == 0 {
				return nil
			}
		case r.isDot("loc", "file"):
			if err := r.line(); err != nil {
				return err
			}
		default:
			if err := r.instruction(); err != nil {
				return err
			}
		}
	}
}

// instruction takes one up to its semicolon, a label, a directive, or the contents of a vector's
// braces.
func (r *rewriter) instruction() error {
	if r.next.Is(":") {
		if err := r.stray(); err != nil {
			return err
		}
		r.step()
		r.step()
		return nil
	}
	if r.at.Kind == ptxlex.Dot { // a declaration in the function
		for !r.ended() && !r.accept(";") {
			if err := r.stray(); err != nil {
				return err
			}
			r.step()
		}
		return nil
	}
	if r.accept("@") {
		r.accept("!")
		r.step()
	}
	r.step() // the opcode, which may have the name of a variable
	for !r.ended() && !r.accept(";") {
		if _, ok := r.managed(); !ok {
			r.step()
		} else if err := r.operand(); err != nil {
			return err
		}
	}
	return nil
}

// operand replaces an address by a register. Between brackets an offset stays in the text;
// elsewhere the register includes it.
func (r *rewriter) operand() error {
	i, _ := r.managed()
	s := address{variable: i}
	bracket, start, end := r.before[0].Is("["), r.at.start, r.at.end
	if r.before[0].Is("+") || r.before[0].Is("-") ||
		r.before[0].Is("(") && r.before[1].Kind == ptxlex.Word {
		return r.stray()
	}
	r.step()
	if !bracket && (r.at.Is("+") || r.at.Is("-")) {
		var err error
		if s.offset, err = r.offset(); err != nil {
			return err
		}
		end = r.before[0].end
	}
	n, ok := r.registers[s]
	if !ok {
		n = len(r.load)
		r.registers[s] = n
		r.load = append(r.load, s)
	}
	r.edit(edit{start: start, end: end, text: r.listing.register(n)})
	return r.use()
}
