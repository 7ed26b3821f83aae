// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A journal is written as its commands, one after the other; all numbers are little-endian:
//
//	32 bytes: command (16 bits), zero (16), how many words (32), how many objects it made (32),
//	zero (32), bytes of the body (64), context (64)
//	the words, and the handles of the objects: 64 bits each
//	the body
const savedHead = 32

// MaxWords bounds the words of a command, and the objects that it made.
const MaxWords = 1 << 16

// ErrSaved is wrapped by all errors that say what is wrong with a journal that is read or written.
var ErrSaved = errors.New("the journal of commands")

// SavedBytes is how much Save writes.
func SavedBytes(list []Executed) (sum uint64) {
	for i := range list {
		e := &list[i]
		sum += savedHead + 8*uint64(len(e.Words)+len(e.Made)) + uint64(len(e.Body))
	}
	return sum
}

// Save writes commands.
func Save(to io.Writer, list []Executed) error {
	w := bufio.NewWriterSize(to, 64<<10)
	var b []byte
	for i := range list {
		e := &list[i]
		if len(e.Words) > MaxWords || len(e.Made) > MaxWords {
			return wrong("has a command of %d words that made %d objects", len(e.Words),
				len(e.Made))
		}
		b = e.appendTo(b[:0])
		_, _ = w.Write(b) // Flush has its error
		_, _ = w.Write(e.Body)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("save %w: %w", ErrSaved, err)
	}
	return nil
}

// appendTo writes all but the body.
func (e *Executed) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Op))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Words)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(e.Made)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(e.Body)))
	b = binary.LittleEndian.AppendUint64(b, e.Context)
	for _, words := range [...][]uint64{e.Words, e.Made} {
		for _, x := range words {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
	}
	return b
}

// Reader reads a journal, a command at a time.
type Reader struct {
	from io.Reader
	left uint64 // how much there may still be
}

// NewReader reads a journal of at most so many bytes.
func NewReader(from io.Reader, limit uint64) *Reader {
	return &Reader{bufio.NewReaderSize(from, 64<<10), limit}
}

// Next returns the next command, and io.EOF after the last. It allocates no more than a small
// multiple of what it has read.
func (r *Reader) Next() (e Executed, err error) {
	var head [savedHead]byte
	switch _, err := io.ReadFull(r.from, head[:]); {
	case errors.Is(err, io.EOF):
		return e, io.EOF
	case err != nil:
		return e, fmt.Errorf("read %w: %w", ErrSaved, err)
	}
	op := binary.LittleEndian.Uint32(head[:])
	words := binary.LittleEndian.Uint32(head[4:])
	made := binary.LittleEndian.Uint64(head[8:])
	body := binary.LittleEndian.Uint64(head[16:])
	if op > 0xffff || words > MaxWords || made > MaxWords {
		return e, wrong("has a command %#x of %d words that made %d objects", op, words, made)
	}
	fixed := savedHead + 8*(uint64(words)+made)
	if fixed > r.left || body > r.left-fixed {
		return e, wrong("is longer than its limit")
	}
	r.left -= fixed + body
	e.Op, e.Context = uint16(op), binary.LittleEndian.Uint64(head[24:])
	if e.Words, err = r.words(uint64(words)); err != nil {
		return e, err
	}
	if e.Made, err = r.words(made); err != nil {
		return e, err
	}
	e.Body, err = r.bytes(body)
	return e, err
}

func (r *Reader) words(n uint64) ([]uint64, error) {
	b, err := r.bytes(8 * n)
	if err != nil || n == 0 {
		return nil, err
	}
	words := make([]uint64, n)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return words, nil
}

func (r *Reader) bytes(n uint64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r.from, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %w: %w", ErrSaved, err)
	}
	return b.Bytes(), nil
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w %w", ErrSaved, fmt.Errorf(format, args...))
}
