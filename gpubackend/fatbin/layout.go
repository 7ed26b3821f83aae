// SPDX-License-Identifier: Apache-2.0

package fatbin

import "encoding/binary"

// First words by which images are told apart, little-endian.
const (
	MagicWrapper   = 0x466243B1 // __fatBinC_Wrapper_t, which holds a pointer
	MagicContainer = 0xBA55ED50
	MagicELF       = 0x464C457F

	magicOld     = 0x1EE55A01
	magicArchive = "!<arch>\n" // text
)

// containerHead is what a container begins with.
type containerHead struct {
	Magic   uint32
	Version uint16
	Header  uint16 // bytes of this
	Body    uint64 // bytes of the variants behind it
}

// variantHead is what a variant begins with.
type variantHead struct {
	Kind         Kind
	_            uint16
	Header       uint32 // bytes of this
	Padded       uint64 // bytes of the payload, so that the next variant is aligned
	Compressed   uint32 // bytes of the payload; 0: it isn't compressed
	_            uint32
	Minor, Major uint16
	Arch         int32
	_            uint64
	Flags        uint64
	_            uint64
	Size         uint64 // of the payload when decompressed, if it is compressed
}

// Sizes of these, which are the least that a head may say.
const (
	containerBytes = 16
	variantBytes   = 64
)

// readContainer reads the head of a container, and says whether the image holds all of it.
func readContainer(image []byte) (h containerHead, fits bool) {
	if _, err := binary.Decode(image, binary.LittleEndian, &h); err != nil {
		return h, false
	}
	n := uint64(len(image))
	return h, h.Header >= containerBytes && uint64(h.Header) <= n && h.Body <= n-uint64(h.Header)
}

// Fits says whether an image holds all of the container that it begins with.
func Fits(image []byte) bool {
	_, fits := readContainer(image)
	return fits
}
