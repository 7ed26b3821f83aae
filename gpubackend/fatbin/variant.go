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
	h, fits := readContainer(image)
	if !fits {
		return nil, fmt.Errorf("open container: header of %d and body of %d bytes in %d: %w",
			h.Header, h.Body, len(image), ErrInvalidImage)
	}
	body := image[h.Header:][:h.Body]
	im := &Binary{}
	for len(body) >= variantBytes {
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
	var h variantHead
	if _, err := binary.Decode(b, binary.LittleEndian, &h); err != nil {
		return Variant{}, 0, fmt.Errorf("header: %w: %w", err, ErrInvalidImage)
	}
	header, compressed := uint64(h.Header), uint64(h.Compressed)
	if header < variantBytes || header > maxVariantHeader || header > uint64(len(b)) {
		return Variant{}, 0, fmt.Errorf("header of %d bytes: %w", header, ErrInvalidImage)
	}
	stored := max(h.Padded, compressed)
	if stored > uint64(len(b))-header {
		return Variant{}, 0,
			fmt.Errorf("payload of %d bytes with %d left: %w", stored, uint64(len(b))-header,
				ErrInvalidImage)
	}
	e := Variant{
		Kind:       h.Kind,
		Minor:      int(h.Minor),
		Major:      int(h.Major),
		Arch:       int(h.Arch),
		Compressed: compressionOf(h.Flags),
		Size:       h.Padded,
		stored:     b[header : header+h.Padded],
	}
	if e.Compressed != Stored {
		e.Size = h.Size
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
