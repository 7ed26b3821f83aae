// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Numbers of ELF files (System V ABI, "Object Files"), 64-bit and little-endian, and NVIDIA's own.
const (
	magicELF    = 0x464c457f
	fileHeader  = 64
	header      = 64 // of a section
	symbolSize  = 24
	maxSections = 0xff00 // SHN_LORESERVE

	typeSymbols = 2 // SHT_SYMTAB
	typeRela    = 4
	typeNoBits  = 8
	typeRel     = 9
	// SHT_CUDA_GLOBAL, of relocatable cubins: without content, like typeNoBits
	typeGlobal = 0x70000007

	symbolObject  = 1    // STT_OBJECT
	symbolSection = 3    // STT_SECTION
	symbolData    = 13   // STT_CUDA_OBJECT, of relocatable cubins
	symbolManaged = 0x04 // STO_CUDA_MANAGED
)

// knownForm tells whether a cubin is of the form that CUDA 11 and 12 write: EI_OSABI 0x33,
// EI_ABIVERSION 7.
func knownForm(image []byte) bool {
	return len(image) >= fileHeader && image[7] == 0x33 && image[8] == 7
}

// section is a section's header.
type section struct {
	at           uint64 // of the header in the file
	kind         uint32
	offset, size uint64
	link, info   uint32
	align, entry uint64
}

// symbol is an entry of the symbol table.
type symbol struct {
	at          uint64 // in the file
	name        uint32 // in the table of names
	kind, other byte
	section     uint16
	value, size uint64
}

func (s symbol) managed() bool {
	return (s.kind == symbolObject || s.kind == symbolData) && s.other&symbolManaged != 0
}

// elfFile is a file whose tables were checked to lie within it.
type elfFile struct {
	image    []byte
	sections []section
	table    uint32 // number of the symbol table's section, 0 for none
	symbols  []byte
	names    []byte
}

// readELF reads the tables of a file. Contents of sections are checked by content.
func readELF(image []byte) (*elfFile, error) {
	le := binary.LittleEndian
	if len(image) < fileHeader || le.Uint32(image) != magicELF || image[4] != 2 || image[5] != 1 {
		return nil, fmt.Errorf("no 64-bit ELF file: %w", ErrUnsupported)
	}
	at, size, count := le.Uint64(image[40:]), uint64(le.Uint16(image[58:])),
		uint64(le.Uint16(image[60:]))
	if size < header || count >= maxSections || at > uint64(len(image)) ||
		size*count > uint64(len(image))-at {
		return nil, fmt.Errorf("%d section headers at %d: %w", count, at, ErrUnsupported)
	}
	f := &elfFile{image: image}
	for i := range count {
		s := at + i*size
		h := image[s : s+header]
		f.sections = append(f.sections, section{
			at: s, kind: le.Uint32(h[4:]), offset: le.Uint64(h[24:]), size: le.Uint64(h[32:]),
			link: le.Uint32(h[40:]), info: le.Uint32(h[44:]), align: le.Uint64(h[48:]),
			entry: le.Uint64(h[56:]),
		})
	}
	return f, f.readSymbols()
}

// empty tells whether a section has no content in the file. It then consists of zeros.
func (s *section) empty() bool { return s.kind == typeNoBits || s.kind == typeGlobal }

// content is a section's content in the file.
func (f *elfFile) content(s *section) ([]byte, error) {
	if s.offset > uint64(len(f.image)) || s.size > uint64(len(f.image))-s.offset {
		return nil, fmt.Errorf("section of %d bytes at %d: %w", s.size, s.offset, ErrUnsupported)
	}
	return f.image[s.offset : s.offset+s.size], nil
}

// readSymbols finds the one symbol table.
func (f *elfFile) readSymbols() error {
	for i := range f.sections {
		s := &f.sections[i]
		if s.kind != typeSymbols {
			continue
		}
		if f.table != 0 || s.entry != symbolSize || uint64(s.link) >= uint64(len(f.sections)) {
			return fmt.Errorf("symbol table: %w", ErrUnsupported)
		}
		f.table = uint32(i)
		var err error
		if f.symbols, err = f.content(s); err != nil {
			return err
		}
		if f.names, err = f.content(&f.sections[s.link]); err != nil {
			return err
		}
	}
	return nil
}

// count is the number of symbols.
func (f *elfFile) count() int { return len(f.symbols) / symbolSize }

// symbol returns a symbol, i < count.
func (f *elfFile) symbol(i int) symbol {
	le := binary.LittleEndian
	b := f.symbols[i*symbolSize:][:symbolSize]
	return symbol{
		at: f.sections[f.table].offset + uint64(i*symbolSize), name: le.Uint32(b), kind: b[4] & 0xf,
		other:   b[5],
		section: le.Uint16(b[6:]), value: le.Uint64(b[8:]), size: le.Uint64(b[16:]),
	}
}

// nameOf is a symbol's name, empty where it has none or one that is too long.
func (f *elfFile) nameOf(s symbol) string {
	if uint64(s.name) >= uint64(len(f.names)) {
		return ""
	}
	name := f.names[s.name:]
	end := bytes.IndexByte(name[:min(len(name), maxName)], 0)
	if end < 0 {
		return ""
	}
	return string(name[:end])
}

// findInCubin returns the name of the first managed variable.
func findInCubin(image []byte) (name string, found bool) {
	f, err := readELF(image)
	if err != nil {
		return "", false
	}
	for i := range f.count() {
		if s := f.symbol(i); s.managed() {
			return f.nameOf(s), true
		}
	}
	return "", false
}
