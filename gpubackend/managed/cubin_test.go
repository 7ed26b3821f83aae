// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

// shownRelocation is a relocation as Go's own reader of ELF files shows it, with the place of its
// entry in the file.
type shownRelocation struct {
	entry, at uint64
	kind      uint32
	symbol    string
	table     *elf.Section
}

// readable is a cubin for Go's reader, which doesn't take the toolkit's version in e_version.
func readable(image []byte) *bytes.Reader {
	b := bytes.Clone(image)
	binary.LittleEndian.PutUint32(b[20:], 1)
	return bytes.NewReader(b)
}

// relocations lists those of a cubin's variables.
func relocations(tb testing.TB, image []byte) (list []shownRelocation) {
	tb.Helper()
	f, err := elf.NewFile(readable(image))
	if err != nil {
		tb.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range f.Sections {
		size := map[elf.SectionType]int{elf.SHT_REL: 16, elf.SHT_RELA: 24}[s.Type]
		if size == 0 || s.Size == 0 {
			continue
		}
		table, err := s.Data()
		if err != nil {
			tb.Fatal(err)
		}
		for at := 0; at < len(table); at += size {
			of := symbols[binary.LittleEndian.Uint32(table[at+12:])-1]
			list = append(list, shownRelocation{
				s.Offset + uint64(at),
				f.Sections[s.Info].Offset + binary.LittleEndian.Uint64(table[at:]),
				binary.LittleEndian.Uint32(table[at+8:]), of.Name, s,
			})
		}
	}
	return list
}

// relocationOf finds the entry of a relocation of a managed variable in the file.
func relocationOf(tb testing.TB, image []byte) uint64 {
	tb.Helper()
	for _, r := range relocations(tb, image) {
		if wantVariables[r.symbol] != 0 {
			return r.entry
		}
	}
	tb.Fatal("no relocation")
	return 0
}

// compiledCubin is the cubin of a file.
func compiledCubin(tb testing.TB, file string) []byte {
	tb.Helper()
	opened, err := fatbin.Open(golden(tb, file))
	if err != nil {
		tb.Fatal(err)
	}
	for i := range opened.Variants {
		if isCubin(&opened.Variants[i]) {
			image, err := opened.Variants[i].Payload(nil)
			if err != nil {
				tb.Fatal(err)
			}
			return image
		}
	}
	tb.Fatal("no cubin")
	return nil
}

// TestPlaceCubin: the words that relocations of managed variables name get the addresses, and all
// else stays.
func TestPlaceCubin(t *testing.T) {
	t.Parallel()
	for file, kinds := range map[string][]uint32{
		"vars.fatbin": {reloc64}, "object.cubin": {relocLow32, relocHigh32},
		"object75.cubin": {relocLow32, relocHigh32},
		"linked.cubin":   {relocLow32, relocHigh32},
	} {
		image := compiledCubin(t, file)
		c := open(t, image, "cubin")
		out := place(t, c, base)
		addresses := map[string]uint64{}
		for _, v := range c.Variables {
			addresses[v.Name] = base + v.Offset
		}
		want := bytes.Clone(image)
		seen, left := map[uint32]bool{}, 0
		for _, r := range relocations(t, image) {
			address, ours := addresses[r.symbol]
			if !ours {
				left++
				continue
			}
			seen[r.kind] = true
			switch r.kind {
			case relocLow32:
				binary.LittleEndian.PutUint32(want[r.at+4:], uint32(address))
			case relocHigh32:
				binary.LittleEndian.PutUint32(want[r.at+4:], uint32(address>>32))
			default:
				binary.LittleEndian.PutUint64(want[r.at:], address)
			}
		}
		for _, k := range kinds {
			if !seen[k] {
				t.Errorf("%s has no relocation of kind %d: the test is void", file, k)
			}
		}
		for _, r := range relocations(t, out) {
			if _, ours := addresses[r.symbol]; ours {
				t.Errorf("%s: relocation of %s is left", file, r.symbol)
			}
			left--
		}
		if left != 0 {
			t.Errorf("%s: %d other relocations are gone", file, left)
		}
		compareSections(t, file, want, out)
	}
}

// compareSections compares what both files have in sections, tables of symbols and relocations
// aside.
func compareSections(t *testing.T, name string, want, got []byte) {
	t.Helper()
	a, err := elf.NewFile(readable(want))
	if err != nil {
		t.Fatal(err)
	}
	b, err := elf.NewFile(readable(got))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range a.Sections {
		o := b.Sections[i]
		if s.Type == elf.SHT_REL || s.Type == elf.SHT_RELA || s.Type == elf.SHT_SYMTAB ||
			s.Type == elf.SHT_NOBITS ||
			s.Type == typeGlobal {
			continue
		}
		if s.SectionHeader != o.SectionHeader {
			t.Errorf("%s: section %d is %+v, was %+v", name, i, o.SectionHeader, s.SectionHeader)
		} else if !bytes.Equal(want[s.Offset:s.Offset+s.FileSize],
			got[o.Offset:o.Offset+o.FileSize]) {
			t.Errorf("%s: section %s differs", name, s.Name)
		}
	}
}

// TestHostileCubin changes single fields so that a table points elsewhere.
func TestHostileCubin(t *testing.T) {
	t.Parallel()
	image := golden(t, "linked.cubin")
	f, err := readELF(image)
	if err != nil {
		t.Fatal(err)
	}
	var counter symbol
	for i := range f.count() {
		if s := f.symbol(i); f.nameOf(s) == "counter" {
			counter = s
		}
	}
	rel := relocationOf(t, image)
	var table uint64
	for _, s := range f.sections {
		if s.kind == typeRela && s.offset <= rel && rel < s.offset+s.size {
			table = s.at
		}
	}
	le := binary.LittleEndian
	for name, change := range map[string]func(b []byte){
		"defined elsewhere":       func(b []byte) { le.PutUint16(b[counter.at+6:], 0) },
		"section out of range":    func(b []byte) { le.PutUint16(b[counter.at+6:], 0x7fff) },
		"beyond its section":      func(b []byte) { le.PutUint64(b[counter.at+8:], 1<<40) },
		"larger than its section": func(b []byte) { le.PutUint64(b[counter.at+16:], 1<<63) },
		"without a name":          func(b []byte) { le.PutUint32(b[counter.at:], 1<<31) },
		"two of a name": func(b []byte) {
			copy(b[counter.at+symbolSize:], b[counter.at:counter.at+4])
			b[counter.at+symbolSize+4] = 1
			b[counter.at+symbolSize+5] = 4
		},
		"relocation beyond":      func(b []byte) { le.PutUint64(b[rel:], 1<<63) },
		"relocation at the end":  func(b []byte) { le.PutUint64(b[rel:], ^uint64(3)) },
		"target out of range":    func(b []byte) { le.PutUint32(b[table+44:], 1<<30) },
		"other symbols":          func(b []byte) { le.PutUint32(b[table+40:], 1) },
		"size of an entry":       func(b []byte) { le.PutUint64(b[table+56:], 16) },
		"table of half an entry": func(b []byte) { b[table+32]-- },
		"table beyond the file":  func(b []byte) { le.PutUint64(b[table+24:], 1<<62) },
	} {
		damaged := bytes.Clone(image)
		change(damaged)
		if codes, err := Open(damaged, 90, nil); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %d codes, error %v", name, len(codes), err)
		}
	}
}
