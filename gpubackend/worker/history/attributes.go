// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/binary"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/streams"
)

// stream is a stream as a command names it. The default one is that of the context.
type stream struct{ context, handle uint64 }

func streamOf(c *call.Call, word int) stream { return stream{c.Context, c.Word(word)} }

func (s stream) isDefault() bool {
	return s.handle == streams.Default || s.handle == streams.Legacy
}

// has says whether a setting is one of the stream's attributes.
func (s stream) has(key journal.Key) bool {
	of := stream{key[1], key[2]}
	return key[0] == uint64(gpubackend.OpStreamSetAttribute) &&
		(of.handle == s.handle && !s.isDefault() ||
			of.isDefault() && s.isDefault() && of.context == s.context)
}

// copyAttributes is around the command that gives a stream the attributes of another one: they are
// kept as if they had been set. Streams are made with their priority, so that must be the same one.
func (h *History) copyAttributes(
	c *call.Call, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	result := run(c)
	to, from := streamOf(c, 0), streamOf(c, 1)
	if result != gpubackend.Success || to == from {
		return result
	}
	has, ok := h.priority(to)
	gets, also := h.priority(from)
	switch {
	case to.handle == streams.PerThread:
		h.journal.Refuse(attributeOfThread)
	case !ok || !also || has != gets:
		h.journal.Refuse("it has copied attributes between streams of different priorities")
	default:
		h.replaceAttributes(c, to, from)
	}
	return result
}

// replaceAttributes makes the attributes of a stream those of another one, but for the priority.
func (h *History) replaceAttributes(c *call.Call, to, from stream) {
	list := h.journal.Settings(func(key journal.Key) bool {
		return from.has(key) && key[3] != cudaabi.LaunchAttributePriority
	})
	h.journal.UnsetAll(func(key journal.Key) bool {
		return to.has(key) && key[3] != cudaabi.LaunchAttributePriority
	})
	for _, e := range list {
		e.Words = slices.Clone(e.Words)
		e.Context, e.Words[0] = c.Context, to.handle
		uses := []uint64{c.Context}
		if h.Objects.Has(to.handle) {
			uses = append(uses, to.handle)
		}
		h.journal.Set(journal.Key{uint64(gpubackend.OpStreamSetAttribute), c.Context, to.handle,
			e.Words[1]}, e, uses)
	}
}

// priority is the priority that a stream was made with, or that was set since.
func (h *History) priority(s stream) (priority int32, ok bool) {
	if s.handle == streams.PerThread {
		return 0, true // its attributes were never set, or that was refused
	}
	set := h.journal.Settings(func(key journal.Key) bool {
		return s.has(key) && key[3] == cudaabi.LaunchAttributePriority
	})
	if n := len(set); n > 0 {
		value := set[n-1].Body
		if len(value) < 4 {
			return 0, false
		}
		return int32(binary.LittleEndian.Uint32(value)), true
	}
	if s.isDefault() {
		return 0, true
	}
	e, ok := h.journal.Maker(s.handle)
	if !ok || e.Op != uint16(gpubackend.OpStreamCreateWithPriority) || len(e.Words) < 2 {
		return 0, false
	}
	return int32(e.Words[1]), true
}
