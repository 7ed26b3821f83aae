// SPDX-License-Identifier: Apache-2.0

// Package overlap reads ahead while the caller computes, or writes, what was read before.
//
// # Who owns what
//
// A Reader owns some blocks of memory, and a goroutine for each block that is being read. Copy owns
// a few blocks and one goroutine, which has ended when Copy returns.
//
// # Who may lie
//
// Nobody: the data means nothing here. A source that blocks holds up its reader, as it would
// without this package.
package overlap

import (
	"errors"
	"io"
)

// ahead is how many blocks are read before anybody asks for them.
const ahead = 3

// Reader reads a file from its beginning, some blocks ahead. One goroutine uses it.
type Reader struct {
	from    io.ReaderAt
	at      int64        // of the file: where the next block begins
	coming  []*readBlock // being read, in the order of the file
	current *readBlock   // nil: none is yet
	rest    []byte       // of it
	err     error        // after the rest
}

// readBlock is a part of the file.
type readBlock struct {
	buffer []byte
	read   chan filled // has one when the block was read
}

// filled is the result of a read.
type filled struct {
	n   int
	err error
}

// NewReader begins to read, in blocks of so many bytes. Close must be called.
func NewReader(from io.ReaderAt, bytes int) *Reader {
	r := &Reader{from: from}
	for range ahead {
		r.begin(&readBlock{make([]byte, bytes), make(chan filled, 1)})
	}
	return r
}

// begin begins to read the next part of the file into a block.
func (r *Reader) begin(b *readBlock) {
	at := r.at
	r.at += int64(len(b.buffer))
	r.coming = append(r.coming, b)
	go func() {
		n, err := r.from.ReadAt(b.buffer, at)
		b.read <- filled{n, err}
	}()
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.next()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next goes to the next block. The last one isn't needed any more, and is used for the next read.
func (r *Reader) next() {
	if r.current != nil {
		r.begin(r.current)
	}
	r.current = r.coming[0]
	r.coming = r.coming[:copy(r.coming, r.coming[1:])]
	f := <-r.current.read
	r.rest, r.err = r.current.buffer[:f.n], f.err
}

// Close waits until nothing of the file is being read.
func (r *Reader) Close() {
	for _, b := range r.coming {
		<-b.read
	}
	r.coming, r.current, r.rest, r.err = nil, nil, nil, errClosed
}

var errClosed = errors.New("the reader is closed")

// Copy copies until the source ends, in pieces of limited size: one is written while the next is
// read. After the writer has failed, no read begins.
func Copy(to io.Writer, from io.Reader, bytes int) error {
	c := twoSides{make(chan []byte, 2), make(chan justRead), make(chan struct{})}
	for range cap(c.free) {
		c.free <- make([]byte, bytes)
	}
	go c.read(from)
	for p := range c.full {
		if _, err := to.Write(p.content); err != nil {
			close(c.failed)
			for range c.full { // until the goroutine has ended
			}
			return err
		}
		switch {
		case errors.Is(p.err, io.EOF):
			return nil
		case p.err != nil:
			return p.err
		}
		c.free <- p.content[:bytes]
	}
	return nil
}

// twoSides is what the two sides of a Copy share.
type twoSides struct {
	free   chan []byte
	full   chan justRead // closed when nothing is read any more
	failed chan struct{} // closed when nothing is written any more
}

// justRead is what was read, and the error that ends reading; nil: more follows.
type justRead struct {
	content []byte
	err     error
}

// read reads pieces until there is nothing more to read, or nobody to write it.
func (c *twoSides) read(from io.Reader) {
	defer close(c.full)
	for {
		select {
		case <-c.failed:
			return
		case b := <-c.free:
			n, err := from.Read(b)
			c.full <- justRead{b[:n], err}
			if err != nil {
				return
			}
		}
	}
}
