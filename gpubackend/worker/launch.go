// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// launchWords are the words of a launch before its parameters.
const launchWords = 7

const (
	attributeBytes = 72    // of CUlaunchAttribute
	maxAttributes  = 32    // of a launch
	maxParameters  = 32764 // bytes (CUDA C programming guide, "Kernel parameters")
)

// launches collects consecutive launches, so that the driver gets many at once. They are kept by stream: launches in
// different streams have no order unless something between them makes one, and that something is a command that
// flushes. The exception is the legacy stream, which orders itself with all others.
type launches struct {
	groups [maxGroups]launchGroup
	used   int
	one    gpubackend.Launch // the launch at hand

	flushed, flushes uint64 // not counted yet

	attributes [maxAttributes * attributeBytes]byte // of it: the worker's own copy
}

// launchGroup is launches in one stream of the current context. Their parameters stay in the ring until they are flushed.
type launchGroup struct {
	stream gpubackend.Stream
	list   []gpubackend.Launch
}

const (
	maxGroups = 8   // streams
	maxGroup  = 128 // launches in a stream
	minCut    = 32  // launches before a cut
)

// runLaunchKernel takes a launch: it is executed with those that follow it, or at once if it is of a kind that
// can't be.
func (w *Worker) runLaunchKernel(c *call.Call) gpubackend.Result {
	l := &w.launches.one
	if result := w.decodeLaunch(c, l); result != gpubackend.Success {
		return result
	}
	if len(l.Attributes) > 0 || c.Reply() {
		w.flushLaunches()
		w.state.Count(handover.Launches, 1)
		return w.driver.Launch(l)
	}
	w.collect(l)
	return gpubackend.Success
}

func (w *Worker) decodeLaunch(c *call.Call, l *gpubackend.Launch) (result gpubackend.Result) {
	if l.Function, result = w.kernels.Find(c, c.Word(0)); result != gpubackend.Success {
		return result
	}
	if l.Stream, result = w.streams.Find(c, c.Word(1)); result != gpubackend.Success {
		return result
	}
	parameters, attributes := c.Word(6), c.Word(5)>>32
	body := c.Command.Body[8*launchWords:]
	if parameters > maxParameters || attributes > maxAttributes {
		return gpubackend.InvalidValue
	}
	padded := (parameters + 7) &^ 7
	if padded+attributes*attributeBytes > uint64(len(body)) {
		return gpubackend.InvalidValue
	}
	l.Grid = [3]uint32{uint32(c.Word(2)), uint32(c.Word(2) >> 32), uint32(c.Word(3))}
	l.Block = [3]uint32{uint32(c.Word(3) >> 32), uint32(c.Word(4)), uint32(c.Word(4) >> 32)}
	l.Shared = uint32(c.Word(5))
	l.Parameters = body[:parameters]
	l.Attributes = w.launches.attributes[:copy(w.launches.attributes[:], body[padded:padded+attributes*attributeBytes])]
	return w.translateAttributes(c, l.Attributes)
}

// Launch attributes (CUlaunchAttributeID) whose value begins with an event.
const (
	attributeProgrammaticEvent = 7
	attributeCompletionEvent   = 12
	attributeValue             = 8 // offset of the value
)

// translateAttributes replaces the guest's handles in launch attributes by the driver's. What isn't known is refused.
func (w *Worker) translateAttributes(c *call.Call, attributes []byte) gpubackend.Result {
	for ; len(attributes) > 0; attributes = attributes[attributeBytes:] {
		id := binary.LittleEndian.Uint32(attributes)
		if !allowed.LaunchAttribute.Has(uint64(id)) {
			return gpubackend.InvalidValue
		}
		switch id {
		case attributeProgrammaticEvent, attributeCompletionEvent:
			value := attributes[attributeValue:]
			event, result := handles.Event(&w.objects, binary.LittleEndian.Uint64(value))
			if result != gpubackend.Success {
				return result
			}
			binary.LittleEndian.PutUint64(value, uint64(event))
		}
	}
	return gpubackend.Success
}

// collect adds a launch to those of its stream.
func (w *Worker) collect(l *gpubackend.Launch) {
	b := &w.launches
	legacy := l.Stream <= gpubackend.LegacyStream
	if b.used > 0 && (legacy || b.groups[0].stream <= gpubackend.LegacyStream) && b.groups[0].stream != l.Stream {
		w.flushLaunches()
	}
	g := b.group(l.Stream)
	if g == nil {
		w.flushLaunches()
		g = b.group(l.Stream)
	}
	g.list = append(g.list, *l)
	if len(g.list) == maxGroup || len(g.list) >= minCut && cutsBehind(l) {
		w.flushGroup(g)
	}
}

// cutsBehind says whether a group ends behind a launch. It is decided by what is launched and not by when, so that a
// sequence that repeats is cut into the same groups each time, which the driver can replay; on average every 32nd
// launch cuts.
func cutsBehind(l *gpubackend.Launch) bool {
	h := uint64(l.Function) ^ uint64(l.Grid[0])<<32 ^ uint64(l.Grid[1])<<16 ^ uint64(l.Block[0])<<40 ^ uint64(l.Shared)
	h *= 0x9e3779b97f4a7c15
	return h>>59 == 0
}

// group returns the group of a stream, or nil if there are too many.
func (b *launches) group(s gpubackend.Stream) *launchGroup {
	for i := range b.groups[:b.used] {
		if b.groups[i].stream == s {
			return &b.groups[i]
		}
	}
	if b.used == maxGroups {
		return nil
	}
	g := &b.groups[b.used]
	b.used++
	g.stream = s
	if g.list == nil {
		g.list = make([]gpubackend.Launch, 0, maxGroup)
	}
	return g
}

// flushLaunches executes what was collected: before any other command, before the context changes, and when there
// are no more commands.
func (w *Worker) flushLaunches() {
	b := &w.launches
	for i := range b.groups[:b.used] {
		w.flushGroup(&b.groups[i])
	}
	b.used = 0
}

// count puts what was launched into the VM's counters.
func (b *launches) count(s *handover.State) {
	if b.flushes > 0 {
		s.Count(handover.Launches, b.flushed)
		s.Count(handover.LaunchFlushes, b.flushes)
		b.flushed, b.flushes = 0, 0
	}
}

func (w *Worker) flushGroup(g *launchGroup) {
	list := g.list
	if len(list) > 0 {
		w.launches.flushed += uint64(len(list))
		w.launches.flushes++
	}
	for len(list) > 0 {
		n, result := w.driver.LaunchAll(list)
		if result == gpubackend.Success {
			break
		}
		w.finish(0, 0, false, result, nil)
		// A launch that failed is skipped; those behind it have their own results.
		list = list[min(n+1, len(list)):]
	}
	g.list = g.list[:0]
}
