// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/ptxlex"
)

// declaration is the declaration of a managed variable in a PTX text:
//
//	.visible .global .attribute(.managed) .align 4 .u32 name[9] = {1, 2};
type declaration struct {
	name        string
	size, align uint64
	start       int // of the linkage
	global      int // of ".global"
	attribute   [2]int
	named       [2]int
	initial     bool
	end         int // behind the ";"
}

// sizes are those of the fundamental types in bytes.
var sizes = map[string]uint64{
	"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4,
	"u32": 4, "s32": 4, "f32": 4,
	"f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}

// vectors are the numbers of elements of vector types.
var vectors = map[string]uint64{"v2": 2, "v4": 4}

// declarer finds the declarations.
type declarer struct {
	*scanner
	plain bool // not the managed variables, but all others
	found []declaration
	wide  bool // .address_size 64 was there
	depth int
}

// declarations finds the managed variables of a text, or all plain ones in global memory.
func declarations(text string, plain bool) ([]declaration, error) {
	d := &declarer{scanner: newScanner(text), plain: plain}
	start := 0 // where the linkage of the next declaration begins
	for !d.ended() {
		switch {
		case d.isDot("visible", "extern", "weak", "common"):
			if !d.before[0].linkage() {
				start = d.at.start
			}
			d.step()
		case d.isDot("global") && d.depth == 0:
			if !d.before[0].linkage() {
				start = d.at.start
			}
			if err := d.variable(start); err != nil {
				return nil, err
			}
		case d.isDot("managed"):
			return nil, d.errorf(".managed out of place")
		case d.plain && d.isDot("global") && d.declares():
			return nil, d.errorf("a variable in a function")
		default:
			if d.isDot("address_size") {
				d.wide = d.next.Kind == ptxlex.Int && d.next.Value == 64
			}
			d.nest()
			d.step()
		}
	}
	if d.err != nil {
		return nil, d.errorf("")
	}
	if len(d.found) > 0 && !d.wide {
		return nil, d.errorf("addresses aren't of 64 bits")
	}
	return d.found, nil
}

func (p lexeme) linkage() bool {
	return p.Kind == ptxlex.Dot &&
		(p.Text == "visible" || p.Text == "extern" || p.Text == "weak" || p.Text == "common")
}

// nest counts brackets.
func (d *declarer) nest() {
	switch {
	case d.at.Is("{"), d.at.Is("("), d.at.Is("["):
		d.depth++
	case d.at.Is("}"), d.at.Is(")"), d.at.Is("]"):
		d.depth--
	}
}

// variable reads a declaration in .global space, and keeps it if it declares a managed variable.
func (d *declarer) variable(start int) error {
	v := declaration{start: start, global: d.at.start}
	external := d.before[0].linkage() && d.before[0].Text == "extern"
	d.step()
	managed, unit, err := d.modifiers(&v)
	if err != nil {
		return err
	}
	if managed == d.plain {
		if managed {
			return d.errorf("a managed variable")
		}
		return d.skip()
	}
	if external {
		return d.errorf("a variable of another module")
	}
	if d.at.Kind != ptxlex.Word || unit == 0 {
		return d.errorf("wrong declaration of a variable")
	}
	v.name, v.named = d.at.Text, [2]int{d.at.start, d.at.end}
	d.step()
	if v.size, err = d.dimensions(unit); err != nil {
		return err
	}
	if v.align == 0 {
		v.align = unit
	}
	v.initial = d.at.Is("=")
	if !v.initial && !d.at.Is(";") {
		return d.errorf("wrong declaration of variable %s", v.name)
	}
	if err := d.skip(); err != nil {
		return err
	}
	v.end = d.before[0].end
	if len(d.found) == maxVariables {
		return d.errorf("more than %d variables", maxVariables)
	}
	d.found = append(d.found, v)
	return nil
}

// modifiers reads what stands before the name. unit is an element's size, 0 for a type of none.
func (d *declarer) modifiers(v *declaration) (managed bool, unit uint64, err error) {
	elements := uint64(1)
	for d.at.Kind == ptxlex.Dot {
		word, start := d.at.Text, d.at.start
		d.step()
		switch {
		case word == "attribute":
			ours := false
			if ours, err = d.attributes(); err != nil {
				return false, 0, err
			}
			if ours {
				managed, v.attribute = true, [2]int{start, d.before[0].end}
			}
		case word == "align":
			v.align = d.at.Value
			d.step()
		case vectors[word] != 0:
			elements = vectors[word]
		default:
			unit = sizes[word]
		}
	}
	return managed, unit * elements, nil
}

// attributes reads "(.managed)". Other attributes besides .managed are unknown and refused.
func (d *declarer) attributes() (managed bool, err error) {
	if !d.accept("(") {
		return false, d.errorf("attributes")
	}
	others := false
	for !d.ended() && !d.at.Is(")") {
		if d.isDot("managed") {
			managed = true
		} else {
			others = true
		}
		d.step()
	}
	if !d.accept(")") || managed && others {
		return false, d.errorf("a managed variable with other attributes")
	}
	return managed, nil
}

// dimensions reads "[2][3]" and returns the size of the whole.
func (d *declarer) dimensions(unit uint64) (uint64, error) {
	size := unit
	for d.accept("[") {
		high, low := bits.Mul64(size, d.at.Value)
		if d.at.Kind != ptxlex.Int || high != 0 || low > maxBytes {
			return 0, d.errorf("dimension")
		}
		size = low
		d.step()
		if !d.accept("]") {
			return 0, d.errorf("dimension")
		}
	}
	return size, nil
}

// skip moves past the end of a declaration.
func (d *declarer) skip() error {
	for !d.ended() && !d.at.Is(";") {
		if d.isDot("managed") {
			return d.errorf(".managed out of place")
		}
		d.step()
	}
	if !d.accept(";") {
		return d.errorf("the declaration has no end")
	}
	return nil
}
