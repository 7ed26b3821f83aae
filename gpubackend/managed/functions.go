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

// A kernel that stores a pointer to a function stores one of two things, as compilers of CUDA 12
// were seen to do.
//   - Code that is compiled as a whole, as nvcc does by default and the driver with PTX, has a copy
//     of the function in each kernel. The pointer is a number: its place in a table of the kernel's
//     (.nv.constant2.KERNEL, of which no word is relocated). It means the same in any process.
//   - Code that is linked (-rdc=true) or for a debugger (-G) has the function's address, by
//     relocations. Only the driver knows where that is, and in another process it is another.
//
// Kernels can store addresses of the latter kind anywhere, so such code stays.

// functionOf returns the name of a function of which a variant's code or data gets the address; "":
// there is none. What it reads is taken from mem.
func functionOf(e *fatbin.Variant, code []byte, mem *budget.Account) (string, error) {
	if isPTX(e) {
		return functionOfPTX(code, mem)
	}
	return functionOfCubin(code)
}

func functionOfCubin(code []byte) (string, error) {
	f, err := readELF(code)
	if err != nil {
		return "", err
	}
	for i := range f.sections {
		s := &f.sections[i]
		if s.kind != typeRel && s.kind != typeRela {
			continue
		}
		table, size, err := f.relocationTable(i)
		if err != nil {
			return "", err
		}
		for ; len(table) > 0; table = table[size:] {
			r := relocationIn(table[:size])
			if name, takes := f.takesFunction(&f.sections[s.info], r); takes {
				return orUnnamed(name), nil
			}
		}
	}
	return "", nil
}

// Kinds of relocations in calls of functions. No other instruction has them.
const (
	relocAbsolute = 58 // R_CUDA_ABS47_34: the address, up to sm_89
	relocCall     = 75 // relative to the call, in sm_90
)

// takesFunction says whether code or data gets a function's address by a relocation. A return
// address (a function and a number) doesn't last, and the functions that the driver itself has,
// such as __assertfail, are only called.
func (f *elfFile) takesFunction(target *section, r relocation) (name string, takes bool) {
	in := f.sectionName(target)
	if uint64(r.symbol) >= uint64(f.count()) || hasPrefix(in, notLoaded) {
		return "", false
	}
	s := f.symbol(int(r.symbol))
	name = f.nameOf(s)
	switch code := strings.HasPrefix(in, ".text"); {
	case s.kind != symbolFunction,
		s.section == 0 && (name == "vprintf" || strings.HasPrefix(name, "__")),
		code && (r.addend != 0 || r.kind == relocCall || r.kind == relocAbsolute):
		return "", false
	}
	return name, true
}

// notLoaded are beginnings of the names of sections that no code reads.
var notLoaded = []string{".debug", ".nv_debug", ".rel"}

// functionBytes is what a name of a function counts for in a list that grows.
const functionBytes = 2 * 64

// functionOfPTX looks at a text for a debugger.
func functionOfPTX(text []byte, mem *budget.Account) (string, error) {
	if !bytes.Contains(text, []byte("debug")) || !bytes.Contains(text, []byte(".func")) {
		return "", nil
	}
	if err := mem.Take(uint64(len(text))); err != nil {
		return "", err
	}
	u := &user{scanner: newScanner(string(text)), functions: map[string]bool{}, mem: mem}
	return u.find()
}

// user looks for uses of functions in a text.
type user struct {
	*scanner
	functions map[string]bool // that were declared: a text declares them before they are used
	declares  bool            // in this statement functions may be named: it declares one
	calls     bool            // or calls one
	mem       *budget.Account
}

// find returns the first function whose address is taken.
func (u *user) find() (string, error) {
	debug := false
	for ; !u.ended(); u.step() {
		switch {
		case u.isDot("target"):
			if debug = u.targetsDebugger(); !debug {
				return "", nil
			}
		case u.isDot("section"):
			u.skipSection()
		case u.isDot("func", "entry", "alias", "calltargets"):
			u.declares = true
		case u.at.Is(";"), u.at.Is("{"), u.at.Is("}"):
			u.declares, u.calls = false, false
		case u.at.Kind != ptxlex.Word:
		case u.at.Text == "call":
			u.calls = true
		case u.declares && u.names():
			if err := u.mem.Take(functionBytes); err != nil {
				return "", err
			}
			u.functions[u.at.Text] = true
		case debug && !u.declares && !u.calls && u.functions[u.at.Text]:
			return u.at.Text, nil
		}
	}
	if u.err != nil {
		return "", u.errorf("")
	}
	return "", nil
}

// targetsDebugger reads a .target directive, which ends with its line.
func (u *user) targetsDebugger() (debug bool) {
	line := u.at.Line
	for ; u.next.Kind != ptxlex.EOF && u.next.Line == line; u.step() {
		debug = debug || u.next.Kind == ptxlex.Word && u.next.Text == "debug"
	}
	return debug
}

// skipSection moves to the end of debugging information.
func (u *user) skipSection() {
	for !u.ended() && !u.at.Is("}") {
		u.step()
	}
}

// names says whether the current word is the name of the function that is declared: it follows the
// directive, or what it returns.
func (u *user) names() bool {
	b := u.before[0]
	return b.Is(")") || b.Kind == ptxlex.Dot && (b.Text == "func" || b.Text == "entry")
}

// checkPlace refuses a relocation by which code or data gets an address that only the driver knows.
func (c *cubin) checkPlace(target *section, r relocation) error {
	if uint64(r.symbol) < uint64(c.count()) && !hasPrefix(c.sectionName(target), notLoaded) {
		if s := c.symbol(int(r.symbol)); c.isConstant(s) {
			return fmt.Errorf("%w: it takes the address of constant %q", ErrStays, c.nameOf(s))
		}
	}
	if name, takes := c.takesFunction(target, r); takes {
		return fmt.Errorf("%w: it takes the address of function %q", ErrStays, name)
	}
	return nil
}
