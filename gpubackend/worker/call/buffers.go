// SPDX-License-Identifier: Apache-2.0

package call

import (
	"bytes"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Reference is a buffer argument: two words.
type Reference = command.Buffer

// Reference returns the buffer argument in words i and i+1.
func (c *Call) Reference(i int) Reference { return ReferenceOf(c.Word(i), c.Word(i+1)) }

// ReferenceOf returns the reference in two words.
func ReferenceOf(word, bytes uint64) Reference { return command.NewBuffer(word, bytes) }

// maxBuffer bounds what a buffer argument makes the worker copy at once.
const maxBuffer = 1 << 30

// Buffers is where the buffers of calls are.
type Buffers struct {
	// Bulk returns a part of the arena's bulk area, in place.
	Bulk func(offset, bytes uint64) ([]byte, error)
	// Pages returns what a MAP reference names, for writing if write.
	Pages func(r Reference, write bool) (Pages, gpubackend.Result)
	// Host is the host's memory that copies count for while their command is executed.
	Host *budget.Budget
	// Copied counts the bytes that were copied.
	Copied func(bytes uint64)
	// Used, unless nil, is told of each buffer that a command uses: with the copy of an input,
	// which nobody changes any more, and nil for an output.
	Used func(r Reference, input []byte)

	taken uint64 // from Host by the current command
}

// Pages are pinned pages of the guest that a reference names.
type Pages interface {
	// Read copies all that the reference names to b, which has that length.
	Read(b []byte) gpubackend.Result
	// Write copies b to it.
	Write(b []byte)
}

// take counts a copy of an argument, until its command has been executed.
func (s *Buffers) take(bytes uint64) gpubackend.Result {
	if s.Host.Take(bytes) != nil {
		return gpubackend.OutOfMemory
	}
	s.taken += bytes
	return gpubackend.Success
}

// Release ends the use of all copies: the command has been executed.
func (s *Buffers) Release() {
	if s.taken > 0 {
		s.Host.Give(s.taken)
		s.taken = 0
	}
}

// InPlace returns the guest's own bytes of an inline or bulk buffer: they may change while they are
// read.
func (c *Call) InPlace(r Reference) ([]byte, gpubackend.Result) {
	switch r.Kind {
	case wire.BufferNone:
		return nil, gpubackend.Success
	case wire.BufferInline:
		body := c.Command.Body
		if r.Value < wire.CommandSize || r.Value-wire.CommandSize > uint64(len(body)) {
			return nil, gpubackend.InvalidValue
		}
		body = body[r.Value-wire.CommandSize:]
		if r.Bytes > uint64(len(body)) {
			return nil, gpubackend.InvalidValue
		}
		return body[:r.Bytes:r.Bytes], gpubackend.Success
	case wire.BufferBulk:
		b, err := c.buffers.Bulk(r.Value, r.Bytes)
		if err != nil {
			return nil, gpubackend.InvalidValue
		}
		return b, gpubackend.Success
	}
	return nil, gpubackend.InvalidValue
}

// Input returns a copy of the input buffer in words i and i+1.
func (c *Call) Input(i int) ([]byte, gpubackend.Result) { return c.InputOf(c.Reference(i)) }

// InputOf returns a copy of an input buffer.
func (c *Call) InputOf(r Reference) ([]byte, gpubackend.Result) {
	b, result := c.inputOf(r)
	if result == gpubackend.Success && c.buffers.Used != nil && b != nil {
		c.buffers.Used(r, b)
	}
	return b, result
}

func (c *Call) inputOf(r Reference) ([]byte, gpubackend.Result) {
	if r.Bytes > maxBuffer {
		return nil, gpubackend.InvalidValue
	}
	if r.Kind == wire.BufferMap {
		return c.inputPages(r)
	}
	b, result := c.InPlace(r)
	if result == gpubackend.Success {
		result = c.buffers.take(uint64(len(b)))
	}
	if result != gpubackend.Success {
		return nil, result
	}
	c.buffers.Copied(uint64(len(b)))
	return bytes.Clone(b), gpubackend.Success
}

func (c *Call) inputPages(r Reference) ([]byte, gpubackend.Result) {
	pages, result := c.buffers.Pages(r, false)
	if result != gpubackend.Success {
		return nil, result
	}
	if result := c.buffers.take(r.Bytes); result != gpubackend.Success {
		return nil, result
	}
	b := make([]byte, r.Bytes)
	if result := pages.Read(b); result != gpubackend.Success {
		return nil, result
	}
	c.buffers.Copied(r.Bytes)
	return b, gpubackend.Success
}

// Structure is Input of exactly that size, or of nothing if it is optional.
func (c *Call) Structure(i, size int, optional bool) ([]byte, gpubackend.Result) {
	b, result := c.Input(i)
	if result == gpubackend.Success && len(b) != size && (len(b) != 0 || !optional) {
		result = gpubackend.InvalidValue
	}
	return b, result
}

// Text is Input of a string, without its final NUL.
func (c *Call) Text(i int) (string, gpubackend.Result) { return c.TextOf(c.Reference(i)) }

// TextOf is InputOf of a string, without its final NUL.
func (c *Call) TextOf(r Reference) (string, gpubackend.Result) {
	b, result := c.InputOf(r)
	if result != gpubackend.Success {
		return "", result
	}
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b), gpubackend.Success
}

// Out is an output buffer while a driver fills it.
type Out struct {
	Bytes []byte
	copy  func() // puts Bytes where the guest wants them
}

// Done makes the guest see what was written.
func (o Out) Done() {
	if o.copy != nil {
		o.copy()
	}
}

// Output returns the output buffer in words i and i+1, for the driver to fill.
func (c *Call) Output(i int) (Out, gpubackend.Result) { return c.OutputOf(c.Reference(i)) }

// OutputOf returns an output buffer, for the driver to fill.
func (c *Call) OutputOf(r Reference) (Out, gpubackend.Result) {
	if r.Bytes > maxBuffer {
		return Out{}, gpubackend.InvalidValue
	}
	if r.Kind != wire.BufferNone && c.buffers.Used != nil {
		c.buffers.Used(r, nil)
	}
	if r.Kind != wire.BufferMap {
		b, result := c.InPlace(r)
		return Out{Bytes: b}, result
	}
	pages, result := c.buffers.Pages(r, true)
	if result != gpubackend.Success {
		return Out{}, result
	}
	if result := c.buffers.take(r.Bytes); result != gpubackend.Success {
		return Out{}, result
	}
	b, copied := make([]byte, r.Bytes), c.buffers.Copied
	return Out{b, func() { pages.Write(b); copied(r.Bytes) }}, gpubackend.Success
}
