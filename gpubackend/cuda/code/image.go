// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
)

// First words of device-code images.
const (
	magicWrapper = 0x466243b1 // __fatBinC_Wrapper_t, which holds a pointer
	magicFatbin  = 0xba55ed50
	magicELF     = 0x464c457f
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
	case magicWrapper:
		return gpubackend.InvalidImage
	case magicFatbin:
		if !fatbinFits(image) {
			return gpubackend.InvalidImage
		}
	case magicELF:
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

// fatbinFits checks the container's header: magic, version, u16 header size, u64 size of what
// follows.
func fatbinFits(image []byte) bool {
	if len(image) < 16 {
		return false
	}
	header := uint64(binary.LittleEndian.Uint16(image[6:]))
	body := binary.LittleEndian.Uint64(image[8:])
	return header >= 16 && body <= uint64(len(image)) && header+body <= uint64(len(image))
}

// elfFits checks that the tables of headers lie in the image.
func elfFits(image []byte) bool {
	if len(image) < 64 || image[4] != 2 {
		return false
	}
	le := binary.LittleEndian
	inside := func(offset uint64, size, count uint16) bool {
		return offset <= uint64(len(image)) &&
			uint64(size)*uint64(count) <= uint64(len(image))-offset
	}
	return inside(le.Uint64(image[32:]), le.Uint16(image[54:]), le.Uint16(image[56:])) &&
		inside(le.Uint64(image[40:]), le.Uint16(image[58:]), le.Uint16(image[60:]))
}

// looksLikeText tells PTX from data of no known kind. Archives begin with '!' and are refused.
func looksLikeText(image []byte) bool {
	c := image[0]
	return c == '/' || c == '.' || c == ' ' || c == '\t' || c == '\r' || c == '\n'
}
