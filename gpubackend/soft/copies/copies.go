// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/memory"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/streams"
	"github.com/paracuda/paracuda/gpubackend/soft/textures"
)

const (
	// quickBytes is the size up to which a copy or fill that need not wait is done at once.
	quickBytes = 64 << 10
	// MaxHeld bounds the sources of copies that wait for their stream.
	MaxHeld = 256 << 20
)

// Options are what copies are given.
type Options struct {
	Contexts  *contexts.Contexts
	Scheduler *scheduler.Scheduler
	Memory    *memory.Memory
	Streams   *streams.Streams
	Textures  *textures.Textures
}

// Copies are the copies and fills of a device.
type Copies struct {
	options Options
	held    *scheduler.Allowance // bytes kept for copies that wait
}

// New returns the copies of a device, of which none waits.
func New(o Options) *Copies {
	return &Copies{options: o, held: o.Scheduler.NewAllowance(MaxHeld)}
}

// Held is how many bytes are kept for copies that wait.
func (c *Copies) Held() uint64 { return c.held.Held() }

// CheckCopy refuses a copy of a graph that couldn't be run.
func (c *Copies) CheckCopy(n *gpubackend.Node) gpubackend.Result {
	m, result := copyOf(&n.Copy)
	if result != gpubackend.Success {
		return result
	}
	return c.check(&m)
}

// CheckFill refuses a fill of a graph that couldn't be run. A fill at address 0 is refused only
// when the graph runs, since the driver accepts it in a capture.
func (c *Copies) CheckFill(n *gpubackend.Node) gpubackend.Result {
	m, result := fillOf(&n.Fill)
	if result != gpubackend.Success || n.Fill.Dst == 0 {
		return result
	}
	return c.check(&m)
}

// PrepareCopy prepares a copy of a graph.
func (c *Copies) PrepareCopy(
	n *gpubackend.Node, ctx *contexts.Context,
) (func() *scheduler.Task, gpubackend.Result) {
	m, result := copyOf(&n.Copy)
	return func() *scheduler.Task { return c.moveTask(ctx, m) }, result
}

// PrepareFill prepares a fill of a graph.
func (c *Copies) PrepareFill(
	n *gpubackend.Node, ctx *contexts.Context,
) (func() *scheduler.Task, gpubackend.Result) {
	m, result := fillOf(&n.Fill)
	if result == gpubackend.Success && n.Fill.Dst != 0 && !c.fills(ctx, &m) {
		result = gpubackend.InvalidValue
	}
	return func() *scheduler.Task { return c.moveTask(ctx, m) }, result
}

// span is a range of addresses that a task reads or writes.
type span struct {
	addr, bytes uint64
	write       bool
}

// copyOrFill is a copy or a fill: what it touches, and the function that does it.
type copyOrFill struct {
	spans []span
	run   func()
}

// check checks that what a copy or fill touches is there now.
func (c *Copies) check(m *copyOrFill) gpubackend.Result {
	for _, p := range m.spans {
		if !c.options.Memory.Reaches(p.addr, p.bytes, p.write) {
			return gpubackend.InvalidValue
		}
	}
	return gpubackend.Success
}

// moveTask makes the task of a copy or fill, which checks again when it begins, since registered
// memory may be gone by then.
func (c *Copies) moveTask(ctx *contexts.Context, m copyOrFill) *scheduler.Task {
	total := uint64(0)
	for _, p := range m.spans {
		total += p.bytes
	}
	t := &scheduler.Task{Class: scheduler.Memory, Domain: ctx.Domain, Quick: total <= quickBytes}
	t.Run = func() {
		for _, p := range m.spans {
			if !c.options.Memory.Space().Covers(p.addr, p.bytes, p.write) {
				ctx.Fail(gpubackend.IllegalAddress)
				return
			}
		}
		m.run()
	}
	return t
}

// transfer queues a copy or fill in a stream.
func (c *Copies) transfer(s *streams.Stream, m copyOrFill) gpubackend.Result {
	if result := c.check(&m); result != gpubackend.Success {
		return result
	}
	c.options.Streams.Enqueue(s, c.moveTask(s.Context(), m))
	return gpubackend.Success
}
