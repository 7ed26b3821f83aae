// SPDX-License-Identifier: Apache-2.0

package fatbin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// Errors that callers map to CUDA's error codes.
var (
	// ErrInvalidImage means that the bytes aren't device code at all (CUDA_ERROR_INVALID_IMAGE,
	// 200).
	ErrInvalidImage = errors.New("invalid device-code image")
	// ErrNoBinary means that the image holds no PTX for the device
	// (CUDA_ERROR_NO_BINARY_FOR_GPU, 209).
	ErrNoBinary = errors.New("no binary for GPU")
	// ErrCompression means that a variant is compressed in a way that can't be
	// undone here, or that its compressed bytes are damaged.
	ErrCompression = errors.New("variant can't be decompressed")
)

// Binary is an open image of device code.
type Binary struct {
	// Variants are in the order of the container. An image of PTX text or of a cubin has one
	// variant.
	Variants []Variant
}

// Open opens an image. Bytes after the end that the image itself announces are
// ignored, as they are by CUDA, which gets no length.
func Open(image []byte) (*Binary, error) {
	if len(image) >= 8 && string(image[:8]) == magicArchive {
		return nil, fmt.Errorf("open image: archive of objects: %w", ErrInvalidImage)
	}
	if len(image) >= 4 {
		switch binary.LittleEndian.Uint32(image) {
		case MagicContainer:
			return openContainer(image)
		case MagicELF:
			return &Binary{Variants: []Variant{{Kind: ELF, stored: image}}}, nil
		case MagicWrapper:
			return nil, fmt.Errorf("open image: wrapper without its container: %w", ErrInvalidImage)
		case magicOld:
			return nil, fmt.Errorf("open image: container of CUDA 3 or older: %w", ErrInvalidImage)
		}
	}
	return openText(image)
}

// openText takes NUL-terminated PTX text.
func openText(image []byte) (*Binary, error) {
	text := image
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, fmt.Errorf("open image: empty: %w", ErrInvalidImage)
	}
	if !utf8.Valid(text) || !bytes.Contains(text, []byte(".version")) {
		return nil, fmt.Errorf("open image: unknown first bytes: %w", ErrInvalidImage)
	}
	return &Binary{Variants: []Variant{{Kind: PTX, Arch: textArch(text), stored: text}}}, nil
}

// BestPTX returns the text of the PTX variant for the newest architecture that a device of
// architecture arch can run (90 for compute capability 9.0). The error wraps ErrNoBinary when there
// is none. mem is as for Payload.
func (b *Binary) BestPTX(arch int, mem *budget.Account) ([]byte, error) {
	var best *Variant
	for i := range b.Variants {
		e := &b.Variants[i]
		if e.Kind == PTX && e.Arch <= arch && (best == nil || e.Arch > best.Arch) {
			best = e
		}
	}
	if best == nil {
		return nil, fmt.Errorf("select PTX for sm_%d among %d variants: %w", arch, len(b.Variants),
			ErrNoBinary)
	}
	text, err := best.Payload(mem)
	if err != nil {
		return nil, fmt.Errorf("select PTX for sm_%d: %w", arch, err)
	}
	return text, nil
}

// textArch finds the architecture number in PTX's .target directive; 0 if
// there is none.
func textArch(text []byte) int {
	_, after, found := bytes.Cut(text, []byte("\n.target"))
	if !found {
		return 0
	}
	line, _, _ := bytes.Cut(after, []byte("\n"))
	_, digits, found := bytes.Cut(line, []byte("sm_"))
	if !found {
		return 0
	}
	arch := 0
	for _, c := range digits {
		if c < '0' || c > '9' || arch > 1000 {
			break
		}
		arch = arch*10 + int(c-'0')
	}
	return arch
}
