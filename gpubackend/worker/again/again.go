// SPDX-License-Identifier: Apache-2.0

// Package again turns a command, while it is executed, into one that can be executed again without
// the guest: the content of its input buffers follows its words, and what it writes is dropped.
//
// The worker's loop owns a Taker. It knows only inputs that a handler has copied (call.InputOf):
// commands whose handlers use the guest's bytes in place can't be executed again.
package again

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// valueBits is where the kind of a reference begins.
const valueBits = 56

type used struct {
	reference call.Reference
	input     []byte
}

// Taker executes commands, and turns commands of a journal back into commands.
type Taker struct {
	buffers *call.Buffers
	used    []used
}

// New returns a Taker for calls that have these buffers.
func New(b *call.Buffers) *Taker { return &Taker{buffers: b} }

// Run executes a command, and returns it in a form that can be executed again. An error says why
// that isn't possible; there is none if the command failed.
func (t *Taker) Run(
	c *call.Call, run func(*call.Call) gpubackend.Result,
) (e journal.Executed, result gpubackend.Result, err error) {
	t.buffers.Used = func(r call.Reference, input []byte) {
		t.used = append(t.used, used{r, input})
	}
	result = run(c)
	t.buffers.Used = nil
	list := t.used
	t.used = nil
	if result != gpubackend.Success {
		return e, result, nil
	}
	e = journal.Executed{Op: uint16(c.Op), Context: c.Context, Words: slices.Clone(c.Words())}
	done := make([]bool, len(e.Words))
	for _, u := range list {
		if err := put(&e, done, u); err != nil {
			return journal.Executed{}, result, err
		}
	}
	return e, result, nil
}

// put replaces the words that refer to a buffer.
func put(e *journal.Executed, done []bool, u used) error {
	for i := 0; i+1 < len(e.Words); i++ {
		if done[i] || done[i+1] || call.ReferenceOf(e.Words[i], e.Words[i+1]) != u.reference {
			continue
		}
		done[i], done[i+1] = true, true
		e.Words[i], e.Words[i+1] = uint64(wire.BufferNone)<<valueBits, 0
		if u.input != nil {
			if e.Body == nil { // usually it is the only one, and it may be large
				e.Body = u.input[:0:len(u.input)]
			}
			at := wire.CommandSize + uint64(len(e.Body))
			e.Words[i] = uint64(wire.BufferInline)<<valueBits | at
			e.Words[i+1] = uint64(len(u.input))
			e.Body = append(e.Body, u.input...)
		}
		return nil
	}
	return fmt.Errorf("command %d has a buffer that its words don't name", e.Op)
}

// Image is the image that a command loads; false: it loads none.
func Image(e *journal.Executed) (image []byte, ok bool) {
	b := imageOf(e)
	if b.Kind != wire.BufferInline {
		return nil, false
	}
	at := b.Value - wire.CommandSize
	if at > uint64(len(e.Body)) || b.Bytes > uint64(len(e.Body))-at {
		return nil, false
	}
	return e.Body[at:][:b.Bytes], true
}

// imageOf is the buffer with the image that a command loads, one without a kind if it loads none.
func imageOf(e *journal.Executed) call.Reference {
	switch gpubackend.Op(e.Op) {
	case gpubackend.OpModuleLoadData:
		a, _ := command.DecodeModuleLoadData(e.Words, e.Body)
		return a.Image
	case gpubackend.OpLibraryLoadData:
		a, _ := command.DecodeLibraryLoadData(e.Words, e.Body)
		return a.Image
	}
	return call.Reference{}
}

// ErrCommand is wrapped by all errors that say what is wrong with a command of a journal.
var ErrCommand = errors.New("the journal has a command that can't be executed")

// Command turns a command of a journal into one that is executed like any of the guest's, which
// wrote it.
func Command(e *journal.Executed, c *arena.Command) error {
	if len(e.Words) > len(c.Words) {
		return fmt.Errorf("%w: %d has %d words", ErrCommand, e.Op, len(e.Words))
	}
	c.Command = wire.Command{Op: e.Op, Flags: wire.CommandFlagReply, Context: e.Context}
	c.N = copy(c.Words[:], e.Words)
	c.Body = e.Body
	return nil
}
