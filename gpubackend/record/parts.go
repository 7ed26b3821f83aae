// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend/overlap"
)

// PartsWriter is a writer that can write several parts at the same time, to where they would be if
// they were written one after the other. A Writer gives it large content that way, and computes the
// checksums at the same time.
type PartsWriter interface {
	io.Writer
	WriteParts(parts [][]byte) error
}

// PartsReader is the same for a Reader. What it can't fill is an error, io.EOF or
// io.ErrUnexpectedEOF if there is no more.
type PartsReader interface {
	io.Reader
	ReadParts(parts [][]byte) error
}

// PieceBytes is how much content should be read or written at once: enough for several processors.
const PieceBytes = 16 * stretchBytes

// wholeBytes is how many of n bytes, of those that are left of a section, are in stretches that end
// there. It is 0 if that is only one.
func wholeBytes(n int, left uint64) int {
	if uint64(n) > left {
		n = int(left)
	}
	if uint64(n) < left {
		n -= n % stretchBytes
	}
	if n <= stretchBytes {
		return 0
	}
	return n
}

// stretchesOf cuts content.
func stretchesOf(p []byte) (list [][]byte) {
	for len(p) > 0 {
		n := min(len(p), stretchBytes)
		list, p = append(list, p[:n]), p[n:]
	}
	return list
}

// ownSums are the sums of each alone.
func ownSums(list [][]byte) []sum {
	sums := make([]sum, len(list))
	_ = overlap.Each(len(list), func(i int) error {
		sums[i] = sumOf(list[i])
		return nil
	})
	return sums
}

// writeStretches writes stretches, each with the checksum behind it.
func (w *Writer) writeStretches(to PartsWriter, p []byte) error {
	list := stretchesOf(p)
	own := ownSums(list)
	parts := make([][]byte, 0, 2*len(list))
	for i, b := range list {
		w.sum.join(own[i], len(b))
		parts = append(parts, b, w.sum.bytes())
	}
	if err := to.WriteParts(parts); err != nil {
		return fmt.Errorf("write a record: %w", err)
	}
	w.left -= uint64(len(p))
	return nil
}

// readStretches fills p with stretches, and compares each one's checksum.
func (r *Reader) readStretches(from PartsReader, p []byte) error {
	list := stretchesOf(p)
	parts := make([][]byte, 0, 2*len(list))
	for _, b := range list {
		parts = append(parts, b, make([]byte, sumBytes))
	}
	switch err := from.ReadParts(parts); {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errShort
	case err != nil:
		return fmt.Errorf("read %w: %w", ErrRecord, err)
	}
	for i, own := range ownSums(list) {
		if r.sum.join(own, len(list[i])); !bytes.Equal(parts[2*i+1], r.sum.bytes()) {
			return errDamaged
		}
	}
	r.at += int64(len(p) + len(list)*sumBytes)
	r.left -= uint64(len(p))
	return nil
}

// skip reads what is left of the section.
func (r *Reader) skip() error {
	r.stretch = nil
	space := overlap.Take(int(min(r.left, r.piece())))
	defer overlap.Give(space)
	for r.left > 0 {
		if _, err := r.Read(space); err != nil {
			return err
		}
	}
	return nil
}

// piece is how much is read at once.
func (r *Reader) piece() uint64 {
	if _, ok := r.from.(PartsReader); ok {
		return PieceBytes
	}
	return stretchBytes
}
