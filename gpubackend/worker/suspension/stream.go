// SPDX-License-Identifier: Apache-2.0

package suspension

import (
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend"
)

// partBytes is how much device memory passes through the host's memory at a time: enough for the
// driver to keep the GPU's link busy. While one part is copied the one before is written, or the
// next one is read.
const partBytes = 16 << 20

// pieces are those whose content is still to be copied, one behind the other.
type pieces struct {
	list  []gpubackend.Piece
	taken uint64 // bytes of the first one
	left  uint64 // bytes of all
}

func newPieces(list []gpubackend.Piece) pieces {
	return pieces{list: list, left: gpubackend.PieceBytes(list)}
}

// take takes the next ones, of at most so many bytes.
func (p *pieces) take(bytes uint64) (part []gpubackend.Piece) {
	bytes = min(bytes, p.left)
	p.left -= bytes
	for bytes > 0 {
		next := p.list[0]
		n := min(bytes, next.Bytes-p.taken)
		if n > 0 {
			part = append(part, gpubackend.Piece{Address: next.Address + p.taken, Bytes: n})
		}
		bytes -= n
		if p.taken += n; p.taken == next.Bytes {
			p.list, p.taken = p.list[1:], 0
		}
	}
	return part
}

// memoryReader reads the content of pieces.
type memoryReader struct {
	pieces
	driver gpubackend.Moving
}

// Read implements io.Reader. It fills b if there is as much.
func (m *memoryReader) Read(b []byte) (int, error) {
	n := min(uint64(len(b)), m.left)
	if n == 0 {
		return 0, io.EOF
	}
	if r := m.driver.SavePieces(m.take(n), b[:n]); r != gpubackend.Success {
		return 0, fmt.Errorf("copy device memory out: %w", r.Err())
	}
	return int(n), nil
}

// memoryWriter writes it, no more than they have.
type memoryWriter struct {
	pieces
	driver gpubackend.Moving
}

// Write implements io.Writer.
func (m *memoryWriter) Write(b []byte) (int, error) {
	switch {
	case len(b) == 0:
		return 0, nil
	case uint64(len(b)) > m.left:
		return 0, fmt.Errorf("copy device memory in: %w", io.ErrShortWrite)
	}
	if r := m.driver.LoadPieces(m.take(uint64(len(b))), b); r != gpubackend.Success {
		return 0, fmt.Errorf("copy device memory in: %w", r.Err())
	}
	return len(b), nil
}
