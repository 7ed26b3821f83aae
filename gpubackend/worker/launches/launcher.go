// SPDX-License-Identifier: Apache-2.0

package launches

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/launches"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// Driver is what a Launcher uses of gpubackend.Driver.
type Driver interface {
	Launch(l *gpubackend.Launch) gpubackend.Result
	LaunchAll(ls []gpubackend.Launch) (queued int, result gpubackend.Result)
	LaunchDevices(ls []gpubackend.Launch, flags uint32) gpubackend.Result
}

// Streams finds a stream that the guest names.
type Streams interface {
	Find(c *call.Call, handle uint64) (gpubackend.Stream, gpubackend.Result)
}

// Kernels finds a function, or the function of a kernel.
type Kernels interface {
	Find(c *call.Call, handle uint64) (gpubackend.Function, gpubackend.Result)
}

// Config is what a Launcher needs.
type Config struct {
	Driver  Driver
	Objects *object.Table
	Streams Streams
	Kernels Kernels
	// Fail tells the guest of a launch that failed, which waits for no answer.
	Fail func(gpubackend.Result)
	// Count adds to a counter of the VM's.
	Count func(handover.Counter, uint64)
}

// Launcher collects launches.
type Launcher struct {
	Config
	groups [maxGroups]group
	used   int
	one    gpubackend.Launch // one launch, in the driver's terms

	flushed, flushes uint64 // not counted yet

	// of that launch: the worker's own copy
	attributes [cudaabi.MaxLaunchAttributes * cudaabi.LaunchAttributeSize]byte
}

// group is launches in one stream of the current context.
type group struct {
	stream gpubackend.Stream
	list   []gpubackend.Launch
}

// maxGroups is how many streams have launches that aren't flushed.
const maxGroups = 8

// New returns a Launcher that has collected nothing.
func New(c Config) *Launcher { return &Launcher{Config: c} }

// Handlers are the commands that a Launcher executes.
func (b *Launcher) Handlers() call.Handlers {
	return call.Handlers{
		gpubackend.OpLaunchKernel:                       {Run: b.launch},
		gpubackend.OpLaunchCooperativeKernelMultiDevice: {Run: b.launchDevices},
	}
}

// launch takes a launch. It is executed together with those that follow, or at once if it must be.
func (b *Launcher) launch(c *call.Call) gpubackend.Result {
	var a command.LaunchKernel
	if !a.Decode(c.Words(), c.Command.Body) {
		return gpubackend.InvalidValue
	}
	l := &b.one
	if result := b.take(c, &a, l); result != gpubackend.Success {
		return result
	}
	if len(l.Attributes) > 0 || c.Reply() {
		b.Flush()
		b.Count(handover.Launches, 1)
		return b.Driver.Launch(l)
	}
	b.collect(l)
	return gpubackend.Success
}

// take looks up the handles of a launch and copies its attributes.
func (b *Launcher) take(
	c *call.Call, a *command.LaunchKernel, l *gpubackend.Launch,
) (result gpubackend.Result) {
	if l.Function, result = b.Kernels.Find(c, a.Function); result != gpubackend.Success {
		return result
	}
	if l.Stream, result = b.Streams.Find(c, a.Stream); result != gpubackend.Success {
		return result
	}
	l.Grid = [3]uint32{a.GridX, a.GridY, a.GridZ}
	l.Block = [3]uint32{a.BlockX, a.BlockY, a.BlockZ}
	l.Shared = a.Shared
	l.Parameters, l.Hash = a.Parameters, 0
	l.Attributes = b.attributes[:copy(b.attributes[:], a.Attributes)]
	return b.translate(l.Attributes)
}

// translate replaces the guest's handles in launch attributes with the driver's. Unknown attributes
// are refused.
func (b *Launcher) translate(attributes []byte) gpubackend.Result {
	for ; len(attributes) > 0; attributes = attributes[cudaabi.LaunchAttributeSize:] {
		a := cudaabi.LaunchAttribute(attributes)
		id := a.ID()
		if !allowed.LaunchAttribute.Has(uint64(id)) {
			return gpubackend.InvalidValue
		}
		switch id {
		case cudaabi.LaunchAttributeProgrammaticEvent, cudaabi.LaunchAttributeLaunchCompletionEvent:
			// Both values begin with the event.
			event, result := handles.Event(b.Objects, a.Value().ProgrammaticEventEvent())
			if result != gpubackend.Success {
				return result
			}
			a.Value().SetProgrammaticEventEvent(uint64(event))
		}
	}
	return gpubackend.Success
}

// collect adds a launch to those of its stream.
func (b *Launcher) collect(l *gpubackend.Launch) {
	legacy := l.Stream <= gpubackend.LegacyStream
	if b.used > 0 && (legacy || b.groups[0].stream <= gpubackend.LegacyStream) &&
		b.groups[0].stream != l.Stream {
		b.Flush()
	}
	g := b.group(l.Stream)
	if g == nil {
		b.Flush()
		g = b.group(l.Stream)
	}
	g.list = append(g.list, *l)
	if launches.Ends(g.list) {
		b.flush(g)
	}
}

// group returns the group of a stream, or nil if there are too many.
func (b *Launcher) group(s gpubackend.Stream) *group {
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
		g.list = make([]gpubackend.Launch, 0, launches.MaxBatch)
	}
	return g
}

// Collected says whether there are launches that aren't flushed.
func (b *Launcher) Collected() bool { return b.used > 0 }

// Flush executes what was collected.
func (b *Launcher) Flush() {
	for i := range b.groups[:b.used] {
		b.flush(&b.groups[i])
	}
	b.used = 0
}

// Report adds what was launched to the VM's counters.
func (b *Launcher) Report() {
	if b.flushes > 0 {
		b.Count(handover.Launches, b.flushed)
		b.Count(handover.LaunchFlushes, b.flushes)
		b.flushed, b.flushes = 0, 0
	}
}

func (b *Launcher) flush(g *group) {
	list := g.list
	if len(list) > 0 {
		b.flushed += uint64(len(list))
		b.flushes++
	}
	for len(list) > 0 {
		n, result := b.Driver.LaunchAll(list)
		if result == gpubackend.Success {
			break
		}
		b.Fail(result)
		// A launch that failed is skipped; those after it have their own results.
		list = list[min(n+1, len(list)):]
	}
	g.list = g.list[:0]
}
