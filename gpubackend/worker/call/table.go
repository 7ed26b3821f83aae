// SPDX-License-Identifier: Apache-2.0

package call

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
)

// Handler executes one command.
type Handler struct {
	Words     int  // argument words that it needs at least
	NoContext bool // needs no current context
	Bare      bool // nor an open device; what context the command names isn't looked at
	Run       func(*Call) gpubackend.Result
}

// Decoded is the handler of a command that package command decodes. A command that this refuses
// goes no further. The table knows how many words the command has, and whether it needs a context.
func Decoded[A any](
	decode func(words []uint64, body []byte) (A, bool), run func(*Call, A) gpubackend.Result,
) Handler {
	return Handler{Run: func(c *Call) gpubackend.Result {
		a, ok := decode(c.Words(), c.Command.Body)
		if !ok {
			return gpubackend.InvalidValue
		}
		return run(c, a)
	}}
}

// Bare is a handler that is run though the device isn't open, whatever context the command names.
func Bare(h Handler) Handler {
	h.Bare = true
	return h
}

// Handlers are the commands that a room of the worker executes.
type Handlers map[gpubackend.Op]Handler

// Step is what one part does around another part's handler, which run executes.
type Step func(c *Call, run func(*Call) gpubackend.Result) gpubackend.Result

// Around is a step that gets the arguments decoded. A command that decode refuses goes no further.
func Around[A any](
	decode func(words []uint64, body []byte) (A, bool),
	step func(c *Call, a A, run func(*Call) gpubackend.Result) gpubackend.Result,
) Step {
	return func(c *Call, run func(*Call) gpubackend.Result) gpubackend.Result {
		a, ok := decode(c.Words(), c.Command.Body)
		if !ok {
			return gpubackend.InvalidValue
		}
		return step(c, a, run)
	}
}

// Steps are those of a part.
type Steps map[gpubackend.Op]Step

// Ops is how many numbers of commands there are.
const Ops = 1024

// Table has every handler at its number.
type Table [Ops]Handler

// Add enters the handlers of a part. No command has two.
func (t *Table) Add(handlers Handlers) {
	for op, h := range handlers {
		if t[op].Run != nil {
			panic(fmt.Sprintf("%s has two handlers", op.Name()))
		}
		if l, ok := command.Layouts[uint16(op)]; ok {
			h.Words, h.NoContext = l.Words, l.NoContext
		}
		t[op] = h
	}
}

// Wrap puts steps around existing handlers. Of several, the one that was added last comes first.
func (t *Table) Wrap(steps Steps) {
	for op, step := range steps {
		run := t[op].Run
		if run == nil {
			panic(fmt.Sprintf("%s has no handler", op.Name()))
		}
		t[op].Run = func(c *Call) gpubackend.Result { return step(c, run) }
	}
}

// Find returns the handler of a command, nil if there is none.
func (t *Table) Find(op gpubackend.Op) *Handler {
	if int(op) >= len(t) || t[op].Run == nil {
		return nil
	}
	return &t[op]
}
