// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

// Numbers of ELF files (System V ABI, "Object Files"), 64-bit and little-endian, and NVIDIA's own.
const (
	fileHeader  = 64
	header      = 64 // of a section
	maxSections = uint16(elf.SHN_LORESERVE)

	typeSymbols = uint32(elf.SHT_SYMTAB)
	typeRela    = uint32(elf.SHT_RELA)
	typeNoBits  = uint32(elf.SHT_NOBITS)
	typeRel     = uint32(elf.SHT_REL)
	// SHT_CUDA_GLOBAL, of relocatable cubins: without content, like typeNoBits
	typeGlobal = 0x70000007

	symbolObject   = byte(elf.STT_OBJECT)
	symbolFunction = byte(elf.STT_FUNC)
	symbolSection  = byte(elf.STT_SECTION)
	symbolData     = 13   // STT_CUDA_OBJECT, of relocatable cubins
	symbolManaged  = 0x04 // STO_CUDA_MANAGED

	cudaABI, cudaABIVersion = 0x33, 7 // of the form that CUDA 11 and 12 write
)

// Sizes of elf.Sym64, elf.Rel64 and elf.Rela64, of which there are so many that they are decoded by
// hand, and where fields are that are changed in place.
const (
	symbolSize = 24
	relSize    = 16
	relaSize   = 24

	symbolOther = 5  // of elf.Sym64
	sectionSize = 32 // of elf.Section64
)

// knownForm tells whether a cubin is of the form that CUDA 11 and 12 write.
func knownForm(image []byte) bool {
	return len(image) >= fileHeader && image[elf.EI_OSABI] == cudaABI &&
		image[elf.EI_ABIVERSION] == cudaABIVersion
}

// section is a section's header.
type section struct {
	at           uint64 // of the header in the file
	name         uint32 // in the table of the sections' names
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
	titles   uint16 // number of the section with the sections' names
	table    uint32 // number of the symbol table's section, 0 for none
	symbols  []byte
	names    []byte
}

// readELF reads the tables of a file. Contents of sections are checked by content.
func readELF(image []byte) (*elfFile, error) {
	le := binary.LittleEndian
	var h elf.Header64
	if _, err := binary.Decode(image, le, &h); err != nil ||
		le.Uint32(h.Ident[:]) != fatbin.MagicELF ||
		elf.Class(h.Ident[elf.EI_CLASS]) != elf.ELFCLASS64 ||
		elf.Data(h.Ident[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("no 64-bit ELF file: %w", ErrUnsupported)
	}
	size, count := uint64(h.Shentsize), uint64(h.Shnum)
	if size < header || h.Shnum >= maxSections || h.Shoff > uint64(len(image)) ||
		size*count > uint64(len(image))-h.Shoff {
		return nil, fmt.Errorf("%d section headers at %d: %w", count, h.Shoff, ErrUnsupported)
	}
	f := &elfFile{image: image, titles: h.Shstrndx}
	for i := range count {
		var s elf.Section64
		at := h.Shoff + i*size
		if _, err := binary.Decode(image[at:at+header], le, &s); err != nil {
			return nil, fmt.Errorf("section header %d: %w: %w", i, err, ErrUnsupported)
		}
		f.sections = append(f.sections, section{
			at: at, name: s.Name, kind: s.Type, offset: s.Off, size: s.Size, link: s.Link,
			info: s.Info, align: s.Addralign, entry: s.Entsize,
		})
	}
	return f, f.readSymbols()
}

// sectionName is a section's name, empty where it has none.
func (f *elfFile) sectionName(s *section) string {
	if int(f.titles) >= len(f.sections) {
		return ""
	}
	names, err := f.content(&f.sections[f.titles])
	if err != nil || uint64(s.name) >= uint64(len(names)) {
		return ""
	}
	name, _, _ := bytes.Cut(names[s.name:], []byte{0})
	return string(name)
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
		other:   b[symbolOther],
		section: le.Uint16(b[6:]), value: le.Uint64(b[8:]), size: le.Uint64(b[16:]),
	}
}

// relocation is an entry of a table of relocations.
type relocation struct {
	offset       uint64 // in the section that it is for
	kind, symbol uint32
	explicit     bool // it has an addend of its own; else the addend is in place
	addend       uint64
}

// relocationTable is a table of relocations, a multiple of size bytes, of which each is one. The
// section that it is for exists.
func (f *elfFile) relocationTable(i int) (table []byte, size int, err error) {
	s := &f.sections[i]
	if table, err = f.content(s); err != nil {
		return nil, 0, err
	}
	size = relSize
	if s.kind == typeRela {
		size = relaSize
	}
	if s.link != f.table || s.entry != uint64(size) || len(table)%size != 0 ||
		uint64(s.info) >= uint64(len(f.sections)) {
		return nil, 0, fmt.Errorf("relocations in section %d: %w", i, ErrUnsupported)
	}
	return table, size, nil
}

// relocationIn decodes an entry, of relSize or relaSize bytes.
func relocationIn(b []byte) relocation {
	le := binary.LittleEndian
	r := relocation{offset: le.Uint64(b), kind: le.Uint32(b[8:]), symbol: le.Uint32(b[12:]),
		explicit: len(b) == relaSize}
	if r.explicit {
		r.addend = le.Uint64(b[16:])
	}
	return r
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
