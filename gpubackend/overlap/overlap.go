// SPDX-License-Identifier: Apache-2.0

// Package overlap does several parts of a copy at the same time: it reads the next piece while the
// one before is written (Copy, CopyHere), and runs a function for several parts at once (Each).
//
//	overlap.go  copies
//	each.go     several parts at once
//	memory.go   memory that goes back at once
//
// # Who owns what
//
// A copy owns two pieces of memory and one goroutine, Each some goroutines. All have ended when the
// function returns.
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

// Copy copies until the source ends, in pieces of limited size: one is written while the next is
// read, on a goroutine. After the writer has failed, no read begins.
func Copy(to io.Writer, from io.Reader, bytes int) error {
	c := newSides(bytes)
	defer c.give()
	go c.read(from)
	return c.write(to)
}

// CopyHere is Copy, but the caller reads, and the goroutine writes.
func CopyHere(to io.Writer, from io.Reader, bytes int) error {
	c := newSides(bytes)
	defer c.give()
	written := make(chan error, 1)
	go func() { written <- c.write(to) }()
	c.read(from)
	return <-written
}

// twoSides is what the two sides of a copy share.
type twoSides struct {
	pieces [2][]byte
	free   chan []byte
	full   chan justRead // closed when nothing is read any more
	failed chan struct{} // closed when nothing is written any more
}

// justRead is what was read, and the error that ends reading; nil: more follows.
type justRead struct {
	content []byte
	err     error
}

func newSides(bytes int) *twoSides {
	c := &twoSides{
		free: make(chan []byte, 2), full: make(chan justRead), failed: make(chan struct{}),
	}
	for i := range c.pieces {
		c.pieces[i] = Take(bytes)
		c.free <- c.pieces[i]
	}
	return c
}

// give gives the pieces back, when neither side uses them any more.
func (c *twoSides) give() {
	for _, b := range c.pieces {
		Give(b)
	}
}

// write writes pieces until there are no more. When it fails it waits until reading has ended.
func (c *twoSides) write(to io.Writer) error {
	for p := range c.full {
		if _, err := to.Write(p.content); err != nil {
			close(c.failed)
			for range c.full { // until nothing is read any more
			}
			return err
		}
		switch {
		case errors.Is(p.err, io.EOF):
			return nil
		case p.err != nil:
			return p.err
		}
		c.free <- p.content[:cap(p.content)]
	}
	return nil
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
