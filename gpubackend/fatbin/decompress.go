// SPDX-License-Identifier: Apache-2.0

package fatbin

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// MaxPayload bounds the decompressed size of one variant.
const MaxPayload = 256 << 20

// maxRatioLZ4 is above the best ratio of an LZ4 block: each input byte adds at most 255 bytes of
// output.
const maxRatioLZ4 = 256

// decompress decompresses stored. size is what the variant announces; a result of another size is
// an error. The result is taken from mem.
func decompress(
	c Compression, stored []byte, size uint64, mem *budget.Account,
) (data []byte, err error) {
	if c == Stored {
		return stored, nil
	}
	if size > MaxPayload {
		return nil, fmt.Errorf("%d decompressed bytes, above the limit of %d: %w", size, MaxPayload,
			ErrCompression)
	}
	if err := mem.Take(size); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			mem.Give(size)
		}
	}()
	switch c {
	case LZ4:
		return decompressLZ4(stored, size)
	case Zstd:
		return decompressZstd(stored, size)
	}
	return nil, fmt.Errorf("compression of CUDA before 11 (flag 0x1000): %w", ErrCompression)
}

func decompressLZ4(stored []byte, size uint64) ([]byte, error) {
	if size > (uint64(len(stored))+1)*maxRatioLZ4 {
		return nil, fmt.Errorf("lz4: %d bytes can't hold %d: %w", len(stored), size, ErrCompression)
	}
	out := make([]byte, size)
	n, err := lz4.UncompressBlock(stored, out)
	if err != nil {
		return nil, fmt.Errorf("lz4: %w: %w", ErrCompression, err)
	}
	if uint64(n) != size {
		return nil, fmt.Errorf("lz4: %d bytes, %d announced: %w", n, size, ErrCompression)
	}
	return out, nil
}

func decompressZstd(stored []byte, size uint64) ([]byte, error) {
	// The decoder's smallest limit is a window of 1 KiB.
	limit := max(size, 1<<10)
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(limit),
		zstd.WithDecoderMaxWindow(MaxPayload), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w: %w", ErrCompression, err)
	}
	defer dec.Close()
	out, err := dec.DecodeAll(stored, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w: %w", ErrCompression, err)
	}
	if uint64(len(out)) != size {
		return nil, fmt.Errorf("zstd: %d bytes, %d announced: %w", len(out), size, ErrCompression)
	}
	return out, nil
}
