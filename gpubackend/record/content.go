// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"io"
)

// Content is the content of a section of a record that lies in a file, where it can be read from
// anywhere. One goroutine uses it.
type Content struct {
	from   io.ReaderAt
	at     int64  // in the file
	bytes  uint64 // of it
	number uint64 // of the last stretch that was read
	last   []byte // its content; nil: none was read
	room   []byte // for it and two checksums
}

// NewContent is the content of a section with this many bytes, from an offset of a file.
func NewContent(from io.ReaderAt, at int64, bytes uint64) *Content {
	return &Content{from: from, at: at, bytes: bytes}
}

// Bytes is its length.
func (c *Content) Bytes() uint64 { return c.bytes }

// Read reads from an offset on, at most until a stretch ends. The checksum of what it returns was
// compared with those before and after it in the file.
func (c *Content) Read(p []byte, offset uint64) (int, error) {
	if offset >= c.bytes {
		return 0, io.EOF
	}
	n := offset / stretchBytes
	if c.last == nil || c.number != n {
		if err := c.load(n); err != nil {
			c.last = nil
			return 0, err
		}
	}
	return copy(p, c.last[offset%stretchBytes:]), nil
}

// Release gives up what was read.
func (c *Content) Release() { c.last, c.room = nil, nil }

// load reads a stretch, its checksum, and the one before it, which is that of all earlier content.
func (c *Content) load(number uint64) error {
	size := int(min(stretchBytes, c.bytes-number*stretchBytes))
	if c.room == nil {
		c.room = make([]byte, min(stretchBytes, c.bytes)+2*sumBytes)
	}
	b := c.room[:size+2*sumBytes]
	at := c.at + int64(number)*(stretchBytes+sumBytes) - sumBytes
	if n, err := c.from.ReadAt(b, at); n < len(b) {
		return fmt.Errorf("read %w: %w", ErrRecord, err)
	}
	before, content, behind := b[:sumBytes], b[sumBytes:sumBytes+size], b[sumBytes+size:]
	if !follows(before, content, behind) {
		return errDamaged
	}
	c.number, c.last = number, content
	return nil
}
