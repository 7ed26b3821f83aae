// SPDX-License-Identifier: Apache-2.0

package call

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Pending is the result of a handler whose call is answered later, or was answered by the handler
// itself.
const Pending gpubackend.Result = -1

// maxAnswer is the number of words of the longest answer.
const maxAnswer = len(command.Words{})

// Call is a command while it is executed: its header and words, and the words of its answer.
type Call struct {
	Command *arena.Command
	Op      gpubackend.Op
	Flags   uint16
	Slot    uint16
	Seq     uint32
	Context uint64 // the guest's handle of the context that the caller is in

	buffers *Buffers
	outs    command.Words
	n       int
}

// New returns a call whose buffers are found by b.
func New(b *Buffers) Call { return Call{buffers: b} }

// Start begins to execute a command.
func (c *Call) Start(command *arena.Command) {
	c.Command, c.n = command, 0
	c.Op, c.Flags = gpubackend.Op(command.Op), command.Flags
	c.Slot, c.Seq = command.Slot, command.Seq
	c.Context = command.Context
}

// Keep is a call that can be executed later, when its command is gone, but has no body.
func (c *Call) Keep() *Call {
	kept, command := *c, *c.Command
	command.Body = nil
	kept.Command = &command
	return &kept
}

// Reply says whether the caller waits for an answer.
func (c *Call) Reply() bool { return c.Flags&wire.CommandFlagReply != 0 }

// Words are the arguments that the guest sent.
func (c *Call) Words() []uint64 { return c.Command.Words[:c.Command.N] }

// Word returns an argument. The dispatcher has checked that there are as many as the handler needs;
// one that the guest didn't send is 0, not a leftover of an earlier command.
func (c *Call) Word(i int) uint64 {
	if i >= c.Command.N {
		return 0
	}
	return c.Command.Words[i]
}

// Answer adds a word to the answer.
func (c *Call) Answer(v uint64) {
	if c.n < len(c.outs) {
		c.outs[c.n] = v
		c.n++
	}
}

// Answer is an answer of several words (package command).
type Answer interface{ Put(*command.Words) int }

// Put makes a the answer.
func (c *Call) Put(a Answer) { c.n = a.Put(&c.outs) }

// Answers is the answer so far.
func (c *Call) Answers() []uint64 { return c.outs[:c.n] }

// Unanswer takes the answer back, for another one.
func (c *Call) Unanswer() { c.n = 0 }

// Work is what a call waits for that is neither a stream nor an event.
type Work interface {
	// Advance does as much of it as can be done now. NotReady says that there is more to do.
	Advance() gpubackend.Result
	// Over is told the result, and says whether the caller is answered with it.
	Over(result gpubackend.Result) (answered bool)
}
