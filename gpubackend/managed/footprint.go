// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"bytes"
	"math/bits"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
	"github.com/paracuda/paracuda/gpubackend/ptxlex"
)

// MaxFootprint is the most that is counted: larger sums are cut to it.
const MaxFootprint = 1 << 50

// Footprint is the device memory that the variables of an image take on a GPU of an architecture,
// in .global and .const space. The driver chooses which code of a fat binary runs, so it is the
// most that any code needs that can run. An error says that it can't be computed: it wraps
// ErrUnsupported or an error of package fatbin. Variants in the compression of CUDA 10 and before
// aren't read. What it reads is taken from mem until it returns.
func Footprint(image []byte, arch int, mem *budget.Account) (uint64, error) {
	opened, err := fatbin.Open(image)
	if err != nil {
		return 0, err
	}
	most := uint64(0)
	for i := range opened.Variants {
		e := &opened.Variants[i]
		measure := variablesOfPTX
		switch {
		case e.Compressed == fatbin.Old:
			continue
		case isCubin(e) && (e.Arch == 0 || e.Arch/10 == arch/10 && e.Arch <= arch):
			measure = variablesOfCubin
		case !isPTX(e) || e.Arch > arch:
			continue
		}
		n, err := measured(e, measure, mem.Sibling())
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	return most, nil
}

// measured measures a variant. What it reads is taken from mem.
func measured(
	e *fatbin.Variant, measure func([]byte, *budget.Account) (uint64, error), mem *budget.Account,
) (uint64, error) {
	defer mem.Close()
	code, err := e.Payload(mem)
	if err != nil {
		return 0, err
	}
	return measure(code, mem)
}

// Beginnings of the names of sections in device memory, and in a block's shared memory.
var (
	deviceSections = []string{".nv.global", ".nv.constant"}
	sharedSections = []string{".nv.shared", ".nv.reservedSmem"}
)

// maxShared is more than a block's shared memory: a larger section isn't shared memory, whatever
// its name.
const maxShared = 1 << 20

// variablesOfCubin adds up the sections for variables, and all others without content, of which the
// file's size says nothing.
func variablesOfCubin(code []byte, _ *budget.Account) (uint64, error) {
	f, err := readELF(code)
	if f == nil {
		return 0, err
	}
	sum := uint64(0)
	for i := range f.sections {
		s := &f.sections[i]
		name := f.sectionName(s)
		shared := hasPrefix(name, sharedSections) && s.size <= maxShared
		if hasPrefix(name, deviceSections) || s.empty() && !shared {
			sum = add(sum, s.size)
		}
	}
	return sum, nil
}

func hasPrefix(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// add and multiply stop at MaxFootprint.
func add(a, b uint64) uint64 {
	if b > MaxFootprint || a > MaxFootprint-b {
		return MaxFootprint
	}
	return a + b
}

func multiply(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 && low <= MaxFootprint {
		return low
	}
	return MaxFootprint
}

// variablesOfPTX adds up the declarations in a text.
func variablesOfPTX(text []byte, mem *budget.Account) (uint64, error) {
	if !bytes.Contains(text, []byte(".global")) && !bytes.Contains(text, []byte(".const")) {
		return 0, nil
	}
	if err := mem.Take(uint64(len(text))); err != nil {
		return 0, err
	}
	d := &declarer{scanner: newScanner(string(text))}
	sum := uint64(0)
	for !d.ended() {
		if !d.isDot("global", "const") || !d.declares() {
			d.step()
			continue
		}
		external := d.before[0].Kind == ptxlex.Dot && d.before[0].Text == "extern"
		n, err := d.sizeOfList(uint64(len(text)))
		if err != nil {
			return 0, err
		}
		if !external {
			sum = add(sum, n)
		}
	}
	if d.err != nil {
		return 0, d.errorf("")
	}
	return sum, nil
}

// declares tells a declaration from a part of an instruction ("ld.global") and a parameter's
// attribute (".ptr .global").
func (d *declarer) declares() bool {
	p := d.before[0]
	return p.Kind != ptxlex.Dot && (p.Kind != ptxlex.Word || p.end != d.at.start) || p.linkage()
}

// sizeOfList reads a declaration after its linkage. It may declare several variables. A variable
// without a number of elements has no more of them than the text has characters.
func (d *declarer) sizeOfList(characters uint64) (sum uint64, err error) {
	var v declaration
	d.step()
	_, unit, err := d.modifiers(&v)
	if err != nil {
		return 0, err
	}
	if unit == 0 {
		unit = 16 // as large as a type can be
	}
	for {
		d.step() // the name
		size := unit
		if d.accept("<") {
			size = multiply(size, d.at.Value)
			d.step()
			d.step()
		}
		if size, err = d.elements(size, characters); err != nil {
			return 0, err
		}
		sum = add(add(sum, size), v.align)
		d.initializer()
		if !d.accept(",") {
			return sum, nil
		}
	}
}

// elements is dimensions, without a bound.
func (d *declarer) elements(size, characters uint64) (uint64, error) {
	for d.accept("[") {
		n := characters
		if !d.at.Is("]") {
			if d.at.Kind != ptxlex.Int {
				return 0, d.errorf("dimension")
			}
			n = d.at.Value
			d.step()
		}
		if !d.accept("]") {
			return 0, d.errorf("dimension")
		}
		size = multiply(size, n)
	}
	return size, nil
}

// initializer moves to what ends a variable: "," or ";".
func (d *declarer) initializer() {
	for depth := 0; !d.ended(); d.step() {
		switch {
		case d.at.Is("{"), d.at.Is("("):
			depth++
		case d.at.Is("}"), d.at.Is(")"):
			depth--
		case d.at.Is(";"), d.at.Is(",") && depth <= 0:
			return
		}
	}
}
