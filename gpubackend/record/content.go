// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"io"
	"sync"
)

// Content is the content of a section of a record that lies in a file, where it can be read from
// anywhere, by several goroutines at the same time.
type Content struct {
	from  io.ReaderAt
	at    int64  // in the file
	bytes uint64 // of it
}

// Excerpt is some bytes of a content, and where they are to be copied.
type Excerpt struct {
	Offset uint64
	To     []byte
}

// StretchOf is the number of the stretch in which an offset is, and how many bytes follow there, if
// the content doesn't end before.
func (*Content) StretchOf(offset uint64) (number, bytes uint64) {
	return offset / stretchBytes, stretchBytes - offset%stretchBytes
}

// NewContent is the content of a section with this many bytes, from an offset of a file.
func NewContent(from io.ReaderAt, at int64, bytes uint64) *Content {
	return &Content{from, at, bytes}
}

// Bytes is its length.
func (c *Content) Bytes() uint64 { return c.bytes }

// Read reads parts of one stretch. The checksum of what it copies was compared with those before
// and after the stretch in the file.
func (c *Content) Read(parts []Excerpt) error {
	if len(parts) == 0 {
		return nil
	}
	number, _ := c.StretchOf(parts[0].Offset)
	first := number * stretchBytes
	if first >= c.bytes {
		return io.EOF
	}
	room := rooms.Get().(*[stretchBytes + 2*sumBytes]byte)
	defer rooms.Put(room)
	content, err := c.load(number, room[:])
	if err != nil {
		return err
	}
	for _, p := range parts {
		offset := p.Offset - first
		if offset > uint64(len(content)) || uint64(len(p.To)) > uint64(len(content))-offset {
			return io.EOF
		}
		copy(p.To, content[offset:])
	}
	return nil
}

// rooms are for stretches that are read, with two checksums.
var rooms = sync.Pool{New: func() any { return new([stretchBytes + 2*sumBytes]byte) }}

// load reads a stretch, its checksum, and the one before it, which is that of all earlier content.
func (c *Content) load(number uint64, room []byte) ([]byte, error) {
	size := int(min(stretchBytes, c.bytes-number*stretchBytes))
	b := room[:size+2*sumBytes]
	at := c.at + int64(number)*(stretchBytes+sumBytes) - sumBytes
	if n, err := c.from.ReadAt(b, at); n < len(b) {
		return nil, fmt.Errorf("read %w: %w", ErrRecord, err)
	}
	before, content, behind := b[:sumBytes], b[sumBytes:sumBytes+size], b[sumBytes+size:]
	if !follows(before, content, behind) {
		return nil, errDamaged
	}
	return content, nil
}
