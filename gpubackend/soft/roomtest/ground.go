// SPDX-License-Identifier: Apache-2.0

// Package roomtest is what the rooms of a software GPU stand on, for tests of one room alone:
// contexts, of which the primary one is current, memory at addresses of its own, and a scheduler.
package roomtest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/memory"
	"github.com/paracuda/paracuda/gpubackend/soft/output"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// windows counts grounds, to give each addresses of its own.
var windows atomic.Uint64

const window = 16 << 30

// Ground is what a room is given. Tests may replace its functions before they are called.
type Ground struct {
	Handles   *handles.Table
	Scheduler *scheduler.Scheduler
	Contexts  *contexts.Contexts
	Memory    *memory.Memory
	// Lasts says what is queued, Ended what the room does when a context has ended.
	Lasts func() []*scheduler.Task
	Ended func(*contexts.Context)
}

// New makes a ground with so much device memory. It is closed with the test.
func New(t testing.TB, bytes uint64) *Ground {
	t.Helper()
	g := &Ground{
		Handles: handles.New(), Scheduler: scheduler.New(nil),
		Lasts: func() []*scheduler.Task { return nil }, Ended: func(*contexts.Context) {},
	}
	nothing := func(*contexts.Context) {}
	g.Contexts = contexts.New(contexts.Options{
		Handles: g.Handles, Scheduler: g.Scheduler, Output: output.NewBuffer(nil), Memory: bytes,
		Hooks: contexts.Hooks{
			Usable: nothing, Ending: nothing, Ended: func(c *contexts.Context) { g.Ended(c) },
			Busy: func(*contexts.Green) bool { return false },
		},
	})
	g.Memory = memory.New(memory.Options{
		Base:   devmem.Base + devmem.Window + (2048+windows.Add(1)%1024)*window,
		Window: window, Files: 4, Handles: g.Handles, Contexts: g.Contexts,
		Scheduler: g.Scheduler,
		Lasts:     func() []*scheduler.Task { return g.Lasts() },
	})
	if err := g.Memory.Open(memory.GPU{Bytes: bytes}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Contexts.Stop()
		g.Scheduler.DropHosts(nil)
		if g.Scheduler.Wait(10 * time.Second) {
			g.Memory.Close()
		}
	})
	g.Contexts.Start(1)
	c, result := g.Contexts.DevicePrimaryCtxRetain(0)
	resulttest.OK(t, result)
	resulttest.OK(t, g.Contexts.SetCurrent(c))
	return g
}

// Alloc allocates device memory.
func (g *Ground) Alloc(t testing.TB, bytes uint64) uint64 {
	t.Helper()
	addr, result := g.Memory.MemAlloc(bytes)
	resulttest.OK(t, result)
	return addr
}

// Idle waits until all work of the current context is done, and returns how it ended.
func (g *Ground) Idle(t testing.TB) gpubackend.Result {
	t.Helper()
	return resulttest.Wait(t, g.Contexts.ContextQuery)
}
