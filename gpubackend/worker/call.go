// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// call is a command while it is executed: its header and words, and the words of its answer.
type call struct {
	command *arena.Command
	op      gpubackend.Op
	flags   uint16
	slot    uint16
	seq     uint32
	context uint64
	outs    [30]uint64
	n       int
}

func (c *call) start(command *arena.Command) {
	c.command, c.n = command, 0
	c.op, c.flags, c.slot, c.seq = gpubackend.Op(command.Op), command.Flags, command.Slot, command.Seq
	c.context = command.Context
}

// word returns an argument. The dispatcher has checked that there are as many as the handler says; one that the guest
// didn't send is 0, and not what the command before it had there.
func (c *call) word(i int) uint64 {
	if i >= c.command.N {
		return 0
	}
	return c.command.Words[i]
}

// answer adds a word to the answer.
func (c *call) answer(v uint64) {
	if c.n < len(c.outs) {
		c.outs[c.n] = v
		c.n++
	}
}

// reference is a buffer argument: two words.
type reference struct {
	kind  uint8
	value uint64
	bytes uint64
}

func (c *call) reference(i int) reference {
	r := c.word(i)
	return reference{uint8(r >> 56), r & (1<<56 - 1), c.word(i + 1)}
}

// mapID and mapOffset are the parts of a MAP reference.
func (r reference) mapID() uint32     { return uint32(r.value >> 32) }
func (r reference) mapOffset() uint64 { return r.value & 0xffffffff }

// maxBuffer bounds what a buffer argument makes the worker copy at once.
const maxBuffer = 1 << 30

// inPlace returns the guest's own bytes of an inline or bulk buffer: they may change while they are read.
func (w *Worker) inPlace(c *call, r reference) ([]byte, gpubackend.Result) {
	switch r.kind {
	case wire.BufferNone:
		return nil, gpubackend.Success
	case wire.BufferInline:
		body := c.command.Body
		if r.value < wire.CommandSize || r.value-wire.CommandSize > uint64(len(body)) {
			return nil, gpubackend.InvalidValue
		}
		body = body[r.value-wire.CommandSize:]
		if r.bytes > uint64(len(body)) {
			return nil, gpubackend.InvalidValue
		}
		return body[:r.bytes:r.bytes], gpubackend.Success
	case wire.BufferBulk:
		b, err := w.arena.Bulk(r.value, r.bytes)
		if err != nil {
			return nil, gpubackend.InvalidValue
		}
		return b, gpubackend.Success
	}
	return nil, gpubackend.InvalidValue
}

// input returns a copy of an input buffer.
func (w *Worker) input(c *call, i int) ([]byte, gpubackend.Result) {
	r := c.reference(i)
	if r.bytes > maxBuffer {
		return nil, gpubackend.InvalidValue
	}
	if r.kind == wire.BufferMap {
		return w.readMap(r)
	}
	b, result := w.inPlace(c, r)
	if result == gpubackend.Success {
		result = w.takeBuffer(uint64(len(b)))
	}
	if result != gpubackend.Success {
		return nil, result
	}
	w.state.Count(handover.BytesCopied, uint64(len(b)))
	return bytes.Clone(b), gpubackend.Success
}

// text returns a copy of a string argument, without its final NUL.
func (w *Worker) text(c *call, i int) (string, gpubackend.Result) {
	b, result := w.input(c, i)
	if result != gpubackend.Success {
		return "", result
	}
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b), gpubackend.Success
}

// outBuffer is an output buffer while a driver fills it.
type outBuffer struct {
	bytes []byte
	copy  func() // puts bytes where the guest wants them
}

func (o outBuffer) done() {
	if o.copy != nil {
		o.copy()
	}
}

// output returns a buffer for the driver to fill; done makes the guest see it.
func (w *Worker) output(c *call, i int) (outBuffer, gpubackend.Result) {
	r := c.reference(i)
	if r.bytes > maxBuffer {
		return outBuffer{}, gpubackend.InvalidValue
	}
	if r.kind == wire.BufferMap {
		m, result := w.mapped(r, true)
		if result != gpubackend.Success {
			return outBuffer{}, result
		}
		if result := w.takeBuffer(r.bytes); result != gpubackend.Success {
			return outBuffer{}, result
		}
		b := make([]byte, r.bytes)
		return outBuffer{b, func() { w.writeMap(m, r, b) }}, gpubackend.Success
	}
	b, result := w.inPlace(c, r)
	return outBuffer{bytes: b}, result
}
