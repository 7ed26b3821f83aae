// SPDX-License-Identifier: Apache-2.0

package fatbin

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// Kind says what a variant's payload is.
type Kind uint16

// Kinds of variants. Other values occur (NVVM, LTO) and are kept as they are.
const (
	PTX    Kind = 1
	ELF    Kind = 2
	NewELF Kind = 0x10
)

func (k Kind) String() string {
	switch k {
	case PTX:
		return "PTX"
	case ELF, NewELF:
		return "ELF"
	}
	return fmt.Sprintf("kind %#x", uint16(k))
}

// Compression says how a variant's payload is stored.
type Compression uint8

// Ways of storing a payload.
const (
	Stored Compression = iota
	LZ4
	Zstd
	// Old is the compression of CUDA before 11, whose format isn't known.
	Old
)

// Flags of a variant header that matter here.
const (
	flagOld  = 0x1000
	flagLZ4  = 0x2000
	flagZstd = 0x8000
)

const (
	containerHeader  = 16
	variantHeader    = 64
	maxVariantHeader = 4096
	maxVariants      = 4096
)

// A Variant is one piece of device code in a container.
type Variant struct {
	Kind Kind
	// Arch is the architecture number, 90 for compute capability 9.0.
	Arch int
	// Major and Minor are the version of the code: the PTX ISA's, or the
	// toolkit's for a cubin.
	Major, Minor int
	// Compressed says how the payload is stored.
	Compressed Compression
	// Size is the payload's size when decompressed, as announced.
	Size uint64

	stored []byte
}

// Payload returns the decompressed payload. PTX is cut at its terminating NUL. The result may be a
// part of the image, so it must not be modified; otherwise it is taken from mem, and the caller
// gives it back.
func (e *Variant) Payload(mem *budget.Account) ([]byte, error) {
	data, err := decompress(e.Compressed, e.stored, e.Size, mem)
	if err != nil {
		return nil, fmt.Errorf("payload of %v variant for sm_%d: %w", e.Kind, e.Arch, err)
	}
	if e.Kind == PTX {
		if end := bytes.IndexByte(data, 0); end >= 0 {
			data = data[:end]
		}
	}
	return data, nil
}

// openContainer walks the variants of a fat binary container.
func openContainer(image []byte) (*Binary, error) {
	if len(image) < containerHeader {
		return nil, fmt.Errorf("open container: %d bytes: %w", len(image), ErrInvalidImage)
	}
	header := uint64(binary.LittleEndian.Uint16(image[6:]))
	size := binary.LittleEndian.Uint64(image[8:])
	if header < containerHeader || header > uint64(len(image)) || size > uint64(len(image))-header {
		return nil, fmt.Errorf("open container: header of %d and body of %d bytes in %d: %w",
			header, size, len(image), ErrInvalidImage)
	}
	body := image[header : header+size]
	im := &Binary{}
	for len(body) >= variantHeader {
		e, length, err := parseVariant(body)
		if err != nil {
			return nil, fmt.Errorf("open container: variant %d: %w", len(im.Variants), err)
		}
		if len(im.Variants) == maxVariants {
			return nil, fmt.Errorf("open container: more than %d variants: %w", maxVariants,
				ErrInvalidImage)
		}
		im.Variants = append(im.Variants, e)
		body = body[length:]
	}
	return im, nil
}

// parseVariant reads the variant at the start of b and returns its whole length.
func parseVariant(b []byte) (Variant, uint64, error) {
	le := binary.LittleEndian
	header := uint64(le.Uint32(b[4:]))
	padded := le.Uint64(b[8:])
	compressed := uint64(le.Uint32(b[16:]))
	flags := le.Uint64(b[40:])
	if header < variantHeader || header > maxVariantHeader || header > uint64(len(b)) {
		return Variant{}, 0, fmt.Errorf("header of %d bytes: %w", header, ErrInvalidImage)
	}
	stored := max(padded, compressed)
	if stored > uint64(len(b))-header {
		return Variant{}, 0,
			fmt.Errorf("payload of %d bytes with %d left: %w", stored, uint64(len(b))-header,
				ErrInvalidImage)
	}
	e := Variant{
		Kind:       Kind(le.Uint16(b)),
		Minor:      int(le.Uint16(b[24:])),
		Major:      int(le.Uint16(b[26:])),
		Arch:       int(int32(le.Uint32(b[28:]))),
		Compressed: compressionOf(flags),
		Size:       padded,
		stored:     b[header : header+padded],
	}
	if e.Compressed != Stored {
		e.Size = le.Uint64(b[56:])
		e.stored = b[header : header+compressed]
	}
	return e, header + stored, nil
}

func compressionOf(flags uint64) Compression {
	switch {
	case flags&flagZstd != 0:
		return Zstd
	case flags&flagLZ4 != 0:
		return LZ4
	case flags&flagOld != 0:
		return Old
	}
	return Stored
}
