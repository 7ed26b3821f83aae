// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
	"github.com/paracuda/paracuda/gpubackend/ptxlex"
)

// ErrStays means that variables can't all be placed, or that the code depends on other places that
// only the driver knows.
var ErrStays = errors.New("its code can't be moved")

// OpenPlain returns the code of an image that a GPU of architecture arch runs, with all variables
// in global memory to be placed: those that aren't managed, texts too. What is left to the driver
// depends on no address: neither other code, nor memory. It is nil if no code that such a GPU can
// run has variables. An error says why there is none: it wraps ErrStays. What the code takes until
// it has been placed is taken from mem.
func OpenPlain(image []byte, arch int, mem *budget.Account) (*Code, error) {
	c, err := openPlain(image, arch, mem)
	if err != nil && !errors.Is(err, ErrStays) {
		return nil, fmt.Errorf("%w: %w", ErrStays, err)
	}
	return c, err
}

func openPlain(image []byte, arch int, mem *budget.Account) (*Code, error) {
	opened, err := fatbin.Open(image)
	if err != nil {
		return nil, err
	}
	if has, err := hasVariables(opened, arch, mem); !has || err != nil {
		return nil, err
	}
	best, twice := bestCubin(opened, arch)
	switch {
	case twice:
		return nil, fmt.Errorf("%w: it has two cubins for sm_%d", ErrStays, best.Arch)
	case best == nil:
		text, err := opened.BestPTX(arch, mem)
		if err != nil {
			return nil, err
		}
		return newPlainPTX(text, mem)
	}
	code, err := best.Payload(mem)
	if err != nil {
		return nil, err
	}
	return newPlainCubin(code, arch, mem)
}

// hasVariables says whether any code that a GPU can run has variables or texts.
func hasVariables(image *fatbin.Binary, arch int, mem *budget.Account) (bool, error) {
	for i := range image.Variants {
		e := &image.Variants[i]
		if !runs(e, arch) {
			continue
		}
		name, err := nameIn(e, mem.Sibling())
		if name != "" || err != nil {
			return true, err
		}
	}
	return false, nil
}

func nameIn(e *fatbin.Variant, mem *budget.Account) (string, error) {
	defer mem.Close()
	code, err := payload(e, mem)
	if err != nil {
		return "", err
	}
	return variableOf(e, code, true, mem)
}

// bestCubin is the cubin for the newest architecture that a GPU can run, and whether there is
// another for the same one.
func bestCubin(image *fatbin.Binary, arch int) (best *fatbin.Variant, twice bool) {
	for i := range image.Variants {
		e := &image.Variants[i]
		switch {
		case !isCubin(e) || !runs(e, arch) || best != nil && e.Arch < best.Arch:
		case best != nil && e.Arch == best.Arch:
			twice = true
		default:
			best, twice = e, false
		}
	}
	return best, twice
}

// newPlainPTX refuses texts that may take the address of a constant.
func newPlainPTX(text []byte, mem *budget.Account) (*Code, error) {
	s := newScanner(string(text))
	for !s.ended() {
		if s.at.Kind == ptxlex.Word && s.at.Text == "cvta" && s.next.Kind == ptxlex.Dot &&
			s.next.Text == "const" {
			return nil, fmt.Errorf("%w: it takes the address of a constant", ErrStays)
		}
		s.step()
	}
	return newPTX(text, true, mem)
}

func newPlainCubin(code []byte, arch int, mem *budget.Account) (*Code, error) {
	c, err := newCubin(code, true, mem)
	if err != nil {
		return nil, err
	}
	f, err := readELF(code)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(f.checkApart(), f.checkConstants(arch)); err != nil {
		return nil, err
	}
	return c, nil
}

// isGlobal says whether a symbol is a variable in global memory.
func (f *elfFile) isGlobal(s symbol) bool {
	return (s.kind == symbolObject || s.kind == symbolData) && s.section != 0 &&
		int(s.section) < len(f.sections) &&
		strings.HasPrefix(f.sectionName(&f.sections[s.section]), ".nv.global")
}

// isConstant says whether a symbol is a constant of the program's.
func (f *elfFile) isConstant(s symbol) bool {
	return s.section != 0 && int(s.section) < len(f.sections) &&
		strings.HasPrefix(f.sectionName(&f.sections[s.section]), ".nv.constant3")
}

// isPlain says whether a symbol is a variable that OpenPlain places.
func (f *elfFile) isPlain(s symbol) (bool, error) {
	if !f.isGlobal(s) {
		return false, nil
	}
	if s.managed() {
		return false, fmt.Errorf("%w: it has managed variables", ErrStays)
	}
	return true, nil
}

// checkApart refuses variables that share memory, as each gets its own.
func (f *elfFile) checkApart() error {
	var list []symbol
	for i := range f.count() {
		if s := f.symbol(i); f.isGlobal(s) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b symbol) int {
		return cmp.Or(cmp.Compare(a.section, b.section), cmp.Compare(a.value, b.value))
	})
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		if a.section == b.section && (a.value+a.size > b.value || a.value == b.value) {
			return fmt.Errorf("%w: its variables %q and %q overlap", ErrStays, f.nameOf(a),
				f.nameOf(b))
		}
	}
	return nil
}

// Instructions of sm_70 to sm_90 have 128 bits. Bits 9 to 11 say which operands there are: in two
// forms one is a word in a bank of constants, whose place is in bits 38 to 53 and whose bank is in
// bits 54 to 58. The first words of bank 0 are the driver's, and parameters follow. In one of the
// driver's words is the address of the program's constants. A load may have an index in a register,
// in bits 24 to 31: code that walks over its parameters does that, and begins before them.
const (
	load    = 0xb82 // in bits 0 to 11
	noIndex = 0xff

	instruction  = 16
	lastForms    = 90 // architectures after it have other forms
	firstForms   = 70
	hopper       = 90
	paramsHopper = 0x210
	params       = 0x160
)

// harmless are the driver's words that tell of no address that lasts: the shape of the launch,
// where a block's and a thread's own memory are, the stack's end, and a word that is a part of
// every access to memory.
func harmless(arch int, at uint64) bool {
	descriptor := uint64(0x118)
	if arch >= hopper {
		descriptor = 0x208
	}
	return at < 0x30 || at == descriptor || at == descriptor+4
}

// checkConstants refuses code with constants of the program's if it may take their addresses.
func (f *elfFile) checkConstants(arch int) error {
	has := false
	for i := range f.count() {
		if s := f.symbol(i); s.kind == symbolObject || s.kind == symbolData {
			has = has || f.isConstant(s)
		}
	}
	if !has {
		return nil
	}
	if arch < firstForms || arch > lastForms {
		return fmt.Errorf("%w: it has constants, whose addresses it may take", ErrStays)
	}
	for i := range f.sections {
		s := &f.sections[i]
		name := f.sectionName(s)
		if !strings.HasPrefix(name, ".text") {
			continue
		}
		code, err := f.content(s)
		if err != nil {
			return err
		}
		if at, ok := driversWord(code, arch); ok {
			return fmt.Errorf("%w: it has constants, whose addresses it may take (%s reads %#x)",
				ErrStays, name, at)
		}
	}
	return nil
}

// driversWord finds an instruction that reads one of the driver's words that aren't harmless.
func driversWord(code []byte, arch int) (at uint64, found bool) {
	first := uint64(params)
	if arch >= hopper {
		first = paramsHopper
	}
	for ; len(code) >= instruction; code = code[instruction:] {
		low := binary.LittleEndian.Uint64(code)
		form, at, bank := low>>9&7, low>>38&0xffff, low>>54&31
		indexed := low&0xfff == load && low>>24&0xff != noIndex
		if (form == 3 || form == 5) && bank == 0 && at < first && !indexed && !harmless(arch, at) {
			return at, true
		}
	}
	return 0, len(bytes.Trim(code, "\x00")) > 0
}
