// SPDX-License-Identifier: Apache-2.0

// Package history keeps the commands that make a program's objects, as they are executed, so that
// another worker can execute them again.
//
//	classes.go     which commands are kept
//	history.go     keeps them: a step around their handlers, and none around any other's
//	attributes.go  attributes of streams that are copied
//	contexts.go    primary contexts that end, and begin anew
//	replay.go      executes them again
//
// # Who owns what
//
// The worker's loop owns a History, which owns the journal (package journal). Its bytes count for a
// budget of their own, so that the program has no less of the host's memory. A program that exceeds
// it can't be saved, but runs as well.
//
// # Who may lie
//
// The guest wrote the commands, and they were executed. When they come from a record they are as
// hostile as the guest's: each goes through its handler, must succeed, and must make the objects
// that it made before.
package history

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/again"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/streams"
)

// Config is what a History needs.
type Config struct {
	Objects *object.Table
	Buffers *call.Buffers
	Memory  *budget.Budget // what the journal may take
	// Primary is the handle of a device's primary context; false: it never had one.
	Primary func(device uint64) (handle uint64, ok bool)
}

// History is that of one guest process.
type History struct {
	Config
	journal *journal.Journal
	taker   *again.Taker
	users   map[uint64]int // how often the device has retained a primary context, by handle
}

// New returns a History of a program that has done nothing.
func New(c Config) *History {
	h := &History{Config: c, taker: again.New(c.Buffers), users: map[uint64]int{}}
	h.journal = journal.New(c.Memory.Limit(), c.Memory, c.Objects.Has)
	return h
}

// Steps are what this room does around the handlers of others. They come before all other steps.
func (h *History) Steps() call.Steps {
	steps := call.Steps{}
	for _, op := range makers {
		steps[op] = h.make
	}
	for op := range setters {
		steps[op] = h.set
	}
	for op := range undoers {
		steps[op] = h.unset
	}
	steps[gpubackend.OpStreamCopyAttributes] = h.copyAttributes
	steps[gpubackend.OpDevicePrimaryCtxReset] = h.reset
	steps[gpubackend.OpDevicePrimaryCtxRelease] = h.release
	for _, op := range refusers {
		steps[op] = h.refuse
	}
	return steps
}

// make keeps a command that made objects.
func (h *History) make(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	before := h.Objects.Len()
	e, result, err := h.taker.Run(c, run)
	if result == gpubackend.Success && c.Op == gpubackend.OpDevicePrimaryCtxRetain {
		for _, context := range c.Answers() {
			h.retained(context)
		}
	}
	if result != gpubackend.Success || h.Objects.Len() == before {
		return result
	}
	for _, word := range c.Answers() {
		if h.Objects.Has(word) {
			e.Made = append(e.Made, word)
		}
	}
	switch {
	case err != nil:
		h.journal.Refuse(err.Error())
	case h.Objects.Len() != before+len(e.Made):
		h.journal.Refuse(fmt.Sprintf("%s made more than it said", c.Op.Name()))
	default:
		if contextless[c.Op] {
			e.Context = 0
		}
		h.journal.Add(e, h.uses(c))
	}
	return result
}

// uses are the objects that a command names.
func (h *History) uses(c *call.Call) (list []uint64) {
	if c.Context != 0 && !contextless[c.Op] {
		list = append(list, c.Context)
	}
	for _, word := range c.Words() {
		if h.Objects.Has(word) {
			list = append(list, word)
		}
	}
	return list
}

// attributeOfThread is a reason to refuse: nobody could say which thread's stream that was.
const attributeOfThread = "it has set an attribute of a thread's own stream"

// set keeps a command that set something.
func (h *History) set(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	e, result, err := h.taker.Run(c, run)
	switch {
	case result != gpubackend.Success:
	case err != nil:
		h.journal.Refuse(err.Error())
	case ofThread(c):
		h.journal.Refuse(attributeOfThread)
	default:
		h.journal.Set(keyOf(c.Op, c), e, h.uses(c))
	}
	return result
}

// keyOf tells what a setter sets, by its own words or by those of the command that takes it back.
func keyOf(setter gpubackend.Op, c *call.Call) journal.Key {
	key := journal.Key{uint64(setter), c.Context}
	for i, word := range setters[setter] {
		key[2+i] = c.Word(word)
	}
	return key
}

// unset drops the command that has set what is taken back.
func (h *History) unset(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	result := run(c)
	if result == gpubackend.Success {
		h.journal.Unset(keyOf(undoers[c.Op], c))
	}
	return result
}

// ofThread says whether a command sets something of a thread's own stream.
func ofThread(c *call.Call) bool {
	if c.Op != gpubackend.OpStreamSetAttribute {
		return false
	}
	a, ok := command.DecodeStreamSetAttribute(c.Words(), c.Command.Body)
	return ok && a.HStream == streams.PerThread
}

// refuse is around commands that aren't kept.
func (h *History) refuse(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	result := run(c)
	if result == gpubackend.Success || result == call.Pending {
		h.journal.Refuse("it has called " + c.Op.Name())
	}
	return result
}

// Executed are the commands that make all objects again, except so many that others make.
func (h *History) Executed(others int) ([]journal.Executed, error) {
	return h.journal.Executed(h.Objects.Len() - others)
}

// Refused says why the objects can't be made again, if that is known already.
func (h *History) Refused() error { return h.journal.Refused() }
