// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
	"github.com/paracuda/paracuda/gpubackend/ptxlex"
)

// Stays says why an image's code can't be loaded again in another process unnoticed; "": it can.
// It has variables, which the driver would put elsewhere, unless these are placed, or addresses of
// functions, or its kernels allocate memory that only the driver knows. All code is checked that
// can run on a GPU of an architecture. An error says that it can't be known, as with Footprint.
// What it reads is taken from mem until it returns.
func Stays(image []byte, arch int, placed bool, mem *budget.Account) (why string, err error) {
	opened, err := fatbin.Open(image)
	if err != nil {
		return "", err
	}
	for i := range opened.Variants {
		e := &opened.Variants[i]
		if !runs(e, arch) {
			continue
		}
		if why, err = staysFor(e, !placed, mem.Sibling()); err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

// runs says whether a GPU can run code.
func runs(e *fatbin.Variant, arch int) bool {
	if isCubin(e) {
		return e.Arch == 0 || e.Arch/10 == arch/10 && e.Arch <= arch
	}
	return isPTX(e) && e.Arch <= arch
}

// staysFor looks at a variant, and at its variables if it is to. What it reads is taken from mem.
func staysFor(e *fatbin.Variant, variables bool, mem *budget.Account) (string, error) {
	defer mem.Close()
	code, err := payload(e, mem)
	if err != nil {
		return "", err
	}
	if bytes.Contains(code, []byte("malloc")) {
		return "its kernels may allocate memory with malloc", nil
	}
	if variables {
		name, err := variableOf(e, code, false, mem)
		if name != "" || err != nil {
			return fmt.Sprintf("its code has variables, such as %q", name), err
		}
	}
	name, err := functionOf(e, code, mem)
	if err != nil || name == "" {
		return "", err
	}
	return fmt.Sprintf("its code has addresses of functions, such as %q", name), nil
}

// payload is a variant's code, if it can be read.
func payload(e *fatbin.Variant, mem *budget.Account) ([]byte, error) {
	if e.Compressed == fatbin.Old {
		return nil, fmt.Errorf("code in the compression of CUDA 10: %w", ErrUnsupported)
	}
	return e.Payload(mem)
}

// variableOf returns the name of a variable of a variant, or of a text if these count.
func variableOf(
	e *fatbin.Variant, code []byte, texts bool, mem *budget.Account,
) (string, error) {
	if isPTX(e) {
		return variableOfPTX(code, texts, mem)
	}
	return variableOfCubin(code, texts)
}

// ofCompiler says whether a variable is a string literal, made by the compiler.
func ofCompiler(name string) bool {
	return strings.HasPrefix(name, "$str") || strings.HasPrefix(name, "__unnamed_")
}

// variableOfCubin looks at the symbols of sections for variables. Only the third bank of constants
// has the program's; the others are the compiler's.
func variableOfCubin(code []byte, texts bool) (string, error) {
	f, err := readELF(code)
	if f == nil {
		return "", err
	}
	for i := range f.count() {
		s := f.symbol(i)
		if s.kind != symbolObject && s.kind != symbolData || int(s.section) >= len(f.sections) {
			continue
		}
		in, name := f.sectionName(&f.sections[s.section]), f.nameOf(s)
		if hasPrefix(in, []string{".nv.global", ".nv.constant3"}) && (texts || !ofCompiler(name)) {
			return orUnnamed(name), nil
		}
	}
	return "", err
}

func orUnnamed(name string) string {
	if name == "" {
		return "one without a name"
	}
	return name
}

// variableOfPTX looks at the declarations in a text.
func variableOfPTX(text []byte, texts bool, mem *budget.Account) (string, error) {
	if !bytes.Contains(text, []byte(".global")) && !bytes.Contains(text, []byte(".const")) {
		return "", nil
	}
	if err := mem.Take(uint64(len(text))); err != nil {
		return "", err
	}
	d := &declarer{scanner: newScanner(string(text))}
	for !d.ended() {
		if !d.isDot("global", "const") || !d.declares() {
			d.step()
			continue
		}
		external := d.before[0].Kind == ptxlex.Dot && d.before[0].Text == "extern"
		name, err := d.nameInList(uint64(len(text)), texts)
		if err != nil || name != "" && !external {
			return name, err
		}
	}
	if d.err != nil {
		return "", d.errorf("")
	}
	return "", nil
}

// nameInList reads a declaration after its linkage, as sizeOfList does, and returns the name of a
// variable in it that isn't the compiler's, unless texts count.
func (d *declarer) nameInList(characters uint64, texts bool) (name string, err error) {
	var v declaration
	d.step()
	if _, _, err := d.modifiers(&v); err != nil {
		return "", err
	}
	for {
		if texts || !ofCompiler(d.at.Text) {
			name = orUnnamed(d.at.Text)
		}
		d.step()
		if d.accept("<") {
			d.step()
			d.step()
		}
		if _, err = d.elements(1, characters); err != nil {
			return "", err
		}
		d.initializer()
		if !d.accept(",") {
			return name, nil
		}
	}
}
