// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// Kinds of relocations that take a variable's address.
const (
	reloc64  = 2 // R_CUDA_64: the address, in data
	relocG64 = 4 // R_CUDA_G64: the generic address, in data: for global memory it is the same
	// R_CUDA_ABS32_LO_32: the lower half of the address, in bits 32 to 63 of an instruction
	relocLow32  = 56
	relocHigh32 = 57 // R_CUDA_ABS32_HI_32: the upper half, there too
)

// patch is a word of the file that takes an address.
type patch struct {
	at       uint64 // in the file
	variable int
	addend   uint64
	kind     uint32
}

// patchBytes is how much a patch counts for in a list that grows.
const patchBytes = 2 * 32

// cut is a table of relocations without those that are applied here.
type cut struct {
	section int
	keep    []byte
}

// cubin has the changes to a file.
type cubin struct {
	*elfFile
	plain     bool // not the managed variables, but all others in global memory
	variables []Variable
	number    map[uint32]int  // of the variable, by its symbol
	taken     map[uint16]bool // sections in which variables lie
	patches   []patch
	cuts      []cut
	mem       *budget.Account
}

// newCubin finds the managed variables of a cubin, or all plain ones, and all that refers to them.
// A cubin that has some is copied when it is placed; the copy is taken from mem.
func newCubin(image []byte, plain bool, mem *budget.Account) (*Code, error) {
	f, err := readELF(image)
	if err != nil {
		return nil, err
	}
	c := &cubin{
		elfFile: f, plain: plain, number: map[uint32]int{}, taken: map[uint16]bool{}, mem: mem,
	}
	for i := range f.count() {
		if err := c.addVariable(i); err != nil {
			return nil, err
		}
	}
	for i := range f.sections {
		if kind := f.sections[i].kind; len(c.variables) > 0 &&
			(kind == typeRel || kind == typeRela) {
			if err := c.addRelocations(i); err != nil {
				return nil, err
			}
		}
	}
	if len(c.variables) > 0 {
		if err := mem.Take(uint64(len(image))); err != nil {
			return nil, err
		}
	}
	code, err := newCode("cubin", c.variables)
	if err != nil {
		return nil, err
	}
	code.place = c.place
	return code, nil
}

// addVariable enters a symbol if it is a variable to be placed.
func (c *cubin) addVariable(i int) error {
	s := c.symbol(i)
	if c.plain {
		if is, err := c.isPlain(s); !is {
			return err
		}
	} else if !s.managed() {
		return nil
	}
	name := c.nameOf(s)
	if s.section == 0 || int(s.section) >= len(c.sections) {
		return fmt.Errorf("%s is defined elsewhere: %w", name, ErrUnsupported)
	}
	in := &c.sections[s.section]
	if s.value > in.size || s.size > in.size-s.value {
		return fmt.Errorf("%s lies beyond its section: %w", name, ErrUnsupported)
	}
	if len(c.variables) == maxVariables {
		return fmt.Errorf("more than %d variables: %w", maxVariables, ErrUnsupported)
	}
	// A symbol has no alignment of its own: the alignment of its place is at least as large.
	v := Variable{Name: name, Size: s.size, align: min(max(in.align, 1), MaxAlign)}
	if s.value != 0 {
		v.align = min(v.align, 1<<bits.TrailingZeros64(s.value))
	}
	switch {
	case in.empty():
	case c.plain:
		if _, err := c.content(in); err != nil {
			return err
		}
		v.at = in.offset + s.value
	default:
		v.Content = name
	}
	c.number[uint32(i)] = len(c.variables)
	c.taken[s.section] = true
	c.variables = append(c.variables, v)
	return nil
}

// addRelocations takes the relocations of a table that concern managed variables.
func (c *cubin) addRelocations(i int) error {
	s := &c.sections[i]
	table, size, err := c.relocationTable(i)
	if err != nil {
		return err
	}
	var keep []byte
	for at := 0; at < len(table); at += size {
		ours, err := c.addRelocation(&c.sections[s.info], relocationIn(table[at:at+size]))
		if err != nil {
			return fmt.Errorf("relocation %d in section %d: %w", at/size, i, err)
		}
		if !ours {
			if err := c.mem.Take(2 * relaSize); err != nil {
				return err
			}
			keep = append(keep, table[at:at+size]...)
		}
	}
	if len(keep) < len(table) {
		c.cuts = append(c.cuts, cut{i, keep})
	}
	return nil
}

// addRelocation takes a relocation if it concerns a managed variable.
func (c *cubin) addRelocation(target *section, r relocation) (ours bool, err error) {
	number, ours := c.number[r.symbol]
	if !ours {
		if err := c.checkOther(r.symbol); err != nil || !c.plain {
			return false, err
		}
		return false, c.checkPlace(target, r)
	}
	p := patch{variable: number, kind: r.kind, addend: r.addend}
	var skip, width uint64 // from where the relocation points
	switch r.kind {
	case reloc64, relocG64:
		width = 8
	case relocLow32, relocHigh32:
		skip, width = 4, 4
	default:
		return false,
			fmt.Errorf("of %s, of kind %d: %w", c.variables[number].Name, r.kind, ErrUnsupported)
	}
	content, err := c.content(target)
	switch {
	case err != nil:
		return false, err
	case target.empty() || r.offset > target.size || skip+width > target.size-r.offset:
		return false, fmt.Errorf("at %d of %d bytes: %w", r.offset, target.size, ErrUnsupported)
	}
	p.at = target.offset + r.offset + skip
	// nvcc puts an addend, if there is one, in a rela table
	if !r.explicit && !isZero(content[r.offset+skip:][:width]) {
		return false,
			fmt.Errorf("of %s, with an addend in place: %w", c.variables[number].Name,
				ErrUnsupported)
	}
	if err := c.mem.Take(patchBytes); err != nil {
		return false, err
	}
	c.patches = append(c.patches, p)
	return true, nil
}

// checkOther refuses relocations that reach managed variables by their section.
func (c *cubin) checkOther(of uint32) error {
	if uint64(of) >= uint64(c.count()) {
		return nil
	}
	if s := c.symbol(int(of)); s.kind == symbolSection && c.taken[s.section] {
		return fmt.Errorf("by the section of managed variables: %w", ErrUnsupported)
	}
	return nil
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// place writes the addresses.
func (c *cubin) place(base uint64) []byte {
	le := binary.LittleEndian
	out := bytes.Clone(c.image)
	for i := range c.number {
		out[c.symbol(int(i)).at+symbolOther] &^= symbolManaged
	}
	for _, k := range c.cuts {
		s := &c.sections[k.section]
		table := out[s.offset : s.offset+s.size]
		clear(table[copy(table, k.keep):])
		le.PutUint64(out[s.at+sectionSize:], uint64(len(k.keep)))
	}
	for _, p := range c.patches {
		address := base + c.variables[p.variable].Offset + p.addend
		switch p.kind {
		case relocLow32:
			le.PutUint32(out[p.at:], uint32(address))
		case relocHigh32:
			le.PutUint32(out[p.at:], uint32(address>>32))
		default:
			le.PutUint64(out[p.at:], address)
		}
	}
	return out
}
