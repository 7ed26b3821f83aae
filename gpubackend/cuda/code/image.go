// SPDX-License-Identifier: Apache-2.0

package code

import (
	"debug/elf"
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

// maxImage bounds an image.
const maxImage = 2 << 30

// checkImage looks at the outermost lengths of an image, since the driver gets no length and reads
// on. What is inside the driver checks, in a process that serves one guest process.
func checkImage(image []byte) gpubackend.Result {
	if len(image) < 4 || len(image) > maxImage {
		return gpubackend.InvalidImage
	}
	switch binary.LittleEndian.Uint32(image) {
	case fatbin.MagicWrapper:
		return gpubackend.InvalidImage
	case fatbin.MagicContainer:
		if !fatbin.Fits(image) {
			return gpubackend.InvalidImage
		}
	case fatbin.MagicELF:
		if !elfFits(image) {
			return gpubackend.InvalidImage
		}
	default:
		if !looksLikeText(image) {
			return gpubackend.InvalidImage
		}
	}
	return gpubackend.Success
}

// elfFits checks that the tables of headers lie in the image.
func elfFits(image []byte) bool {
	var h elf.Header64
	if _, err := binary.Decode(image, binary.LittleEndian, &h); err != nil ||
		elf.Class(h.Ident[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return false
	}
	inside := func(offset uint64, size, count uint16) bool {
		return offset <= uint64(len(image)) &&
			uint64(size)*uint64(count) <= uint64(len(image))-offset
	}
	return inside(h.Phoff, h.Phentsize, h.Phnum) && inside(h.Shoff, h.Shentsize, h.Shnum)
}

// looksLikeText tells PTX from data of no known kind. Archives begin with '!' and are refused.
func looksLikeText(image []byte) bool {
	c := image[0]
	return c == '/' || c == '.' || c == ' ' || c == '\t' || c == '\r' || c == '\n'
}
