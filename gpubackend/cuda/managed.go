// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

// The driver makes memory for managed variables itself, in this process, where the guest can't touch it. Unless an
// image is patched to use the guest's memory, which isn't done yet, its variables can't be had: loading it fails with
// NotSupported, which CUDA's documentation names for devices without managed variables. Where none was seen in the
// image, none is given out by name either.

// refuseManaged returns NotSupported for an image with managed variables, and logs the name of one.
func (d *Device) refuseManaged(image []byte) gpubackend.Result {
	name, found := managedVariable(image)
	if !found {
		return gpubackend.Success
	}
	d.log.WithField("variable", name).Error("a program's __managed__ variables are not supported on this GPU")
	return gpubackend.NotSupported
}

// managedVariable finds a managed variable in an image. All entries of a fat binary are made of one source, so it
// looks at the smallest.
func managedVariable(image []byte) (name string, found bool) {
	opened, err := fatbin.Open(image)
	if err != nil {
		return "", false
	}
	var least *fatbin.Entry
	for i := range opened.Entries {
		e := &opened.Entries[i]
		code := e.Kind == fatbin.PTX || e.Kind == fatbin.ELF || e.Kind == fatbin.NewELF
		if code && e.Compressed != fatbin.Old && (least == nil || e.Size < least.Size) {
			least = e
		}
	}
	if least == nil {
		return "", false
	}
	code, err := least.Payload()
	if err != nil {
		return "", false
	}
	if least.Kind == fatbin.PTX {
		return managedInPTX(code)
	}
	return managedInELF(code)
}

// managedInPTX finds ".attribute(.managed) .align 4 .u32 name = 5;".
func managedInPTX(text []byte) (name string, found bool) {
	_, rest, found := bytes.Cut(text, []byte(".managed"))
	if !found {
		return "", false
	}
	if end := bytes.IndexAny(rest, "=;[,\n"); end >= 0 {
		rest = rest[:end]
	}
	words := bytes.Fields(rest)
	if len(words) == 0 {
		return "?", true
	}
	return string(words[len(words)-1]), true
}

// Of ELF files, and of the symbols in NVIDIA's.
const (
	sectionSize   = 64
	sectionSymtab = 2
	symbolSize    = 24
	symbolObject  = 1
	symbolManaged = 0x04 // in st_other
)

// managedInELF finds a managed variable in the symbol table.
func managedInELF(image []byte) (name string, found bool) {
	if len(image) < 64 || binary.LittleEndian.Uint32(image) != magicELF || !elfFits(image) {
		return "", false
	}
	le := binary.LittleEndian
	at, size, count := le.Uint64(image[40:]), uint64(le.Uint16(image[58:])), uint64(le.Uint16(image[60:]))
	if size < sectionSize {
		return "", false
	}
	section := func(i uint64) []byte { return image[at+i*size:][:sectionSize] }
	content := func(s []byte) []byte {
		offset, n := le.Uint64(s[24:]), le.Uint64(s[32:])
		if offset > uint64(len(image)) || n > uint64(len(image))-offset {
			return nil
		}
		return image[offset : offset+n]
	}
	for i := range count {
		s := section(i)
		if le.Uint32(s[4:]) != sectionSymtab {
			continue
		}
		for symbols := content(s); len(symbols) >= symbolSize; symbols = symbols[symbolSize:] {
			if symbols[4]&0xf != symbolObject || symbols[5]&symbolManaged == 0 {
				continue
			}
			var names []byte
			if link := uint64(le.Uint32(s[40:])); link < count {
				names = content(section(link))
			}
			return stringAt(names, le.Uint32(symbols)), true
		}
	}
	return "", false
}

// stringAt reads a string of an ELF file's.
func stringAt(table []byte, offset uint32) string {
	if uint64(offset) >= uint64(len(table)) {
		return "?"
	}
	s, _, _ := bytes.Cut(table[offset:], []byte{0})
	return string(s)
}

// pointerIsManaged is CU_POINTER_ATTRIBUTE_IS_MANAGED.
const pointerIsManaged = 8

// plainGlobal returns a variable unless it is managed.
func (d *Device) plainGlobal(addr, bytes uint64, r gpubackend.Result, name string) (uint64, uint64, gpubackend.Result) {
	if r != gpubackend.Success {
		return 0, 0, r
	}
	if d.call(symPointerAttribute, d.out(0), pointerIsManaged, addr) == gpubackend.Success && d.value(0) != 0 {
		d.log.WithField("variable", name).Error("a program's __managed__ variables are not supported on this GPU")
		return 0, 0, gpubackend.NotSupported
	}
	return addr, bytes, gpubackend.Success
}

// ModuleGetGlobal returns a variable that isn't managed.
func (d *Device) ModuleGetGlobal(m gpubackend.Module, name string) (uint64, uint64, gpubackend.Result) {
	addr, bytes, r := d.calls.ModuleGetGlobal(m, name)
	return d.plainGlobal(addr, bytes, r, name)
}

// LibraryGetGlobal is ModuleGetGlobal for a library.
func (d *Device) LibraryGetGlobal(l gpubackend.Library, name string) (uint64, uint64, gpubackend.Result) {
	addr, bytes, r := d.calls.LibraryGetGlobal(l, name)
	return d.plainGlobal(addr, bytes, r, name)
}

// LibraryGetManaged finds no variable that could be used.
func (d *Device) LibraryGetManaged(l gpubackend.Library, name string) (uint64, uint64, gpubackend.Result) {
	addr, bytes, r := d.calls.LibraryGetManaged(l, name)
	return d.plainGlobal(addr, bytes, r, name)
}
