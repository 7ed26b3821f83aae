// SPDX-License-Identifier: Apache-2.0

package contexts

import (
	"iter"
	"maps"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
	"github.com/paracuda/paracuda/gpubackend/peers"
)

// Calls are the functions of the driver that are called here.
type Calls interface {
	DevicePrimaryCtxRetain(device uint64) (gpubackend.Context, gpubackend.Result)
	DevicePrimaryCtxRelease(device uint64) gpubackend.Result
	DevicePrimaryCtxReset(device uint64) gpubackend.Result
	CtxCreate(flags, device uint64) (gpubackend.Context, gpubackend.Result)
	CtxDestroy(c gpubackend.Context) gpubackend.Result
	CtxSetCurrent(c gpubackend.Context) gpubackend.Result
	CtxPopCurrent() gpubackend.Result
	CtxSynchronize() gpubackend.Result
	CtxEnablePeerAccess(peer gpubackend.Context, flags uint64) gpubackend.Result
	CtxDisablePeerAccess(peer gpubackend.Context) gpubackend.Result
	ReportTo(work driver.Work)
}

// Hooks are what other rooms do when contexts come and go. All are set before the first call.
type Hooks struct {
	// Ending is called before a context, or something in it, may end.
	Ending func()
	// Room says whether a GPU has room for what another context holds from its start.
	Room func(gpu int) bool
	// Take counts one more context of a GPU if there is room for it, and returns as how much
	// memory.
	Take func(gpu int) (bytes uint64, ok bool)
	// Give undoes that.
	Give func(gpu int, bytes uint64)
	// Began is told of a context that has begun, or begun anew.
	Began func(c *Context)
	// Ready is told when a context that has begun can be used. It need not be current.
	Ready func(c *Context)
	// Current is called when another context has become current.
	Current func()
	// Holds says whether a context has memory that its end gives back.
	Holds func(c *Context) bool
	// Connect gives kernels of one GPU access to the memory of another, or takes back one such
	// call.
	Connect func(from, of int, reaches bool) gpubackend.Result
	// Ended is told that a context has ended, and all that it held.
	Ended func(c *Context)
}

// Contexts is the contexts of one guest process.
type Contexts struct {
	calls   Calls
	gpus    *gpus.List
	hooks   Hooks
	table   map[gpubackend.Context]*Context
	green   int // of the table
	current gpubackend.Context
	state   *Context                  // of current; nil for none
	ahead   map[int]ahead             // retained primary contexts that nobody asked for, by GPU
	peers   *peers.Contexts[*Context] // which reach the memory of others
}

// ahead is a context of WarmUp, and what it counts for.
type ahead struct {
	handle gpubackend.Context
	counts uint64
}

// New returns the contexts of a process, which has none yet.
func New(calls Calls, list *gpus.List) *Contexts {
	x := &Contexts{
		calls: calls, gpus: list,
		table: make(map[gpubackend.Context]*Context), ahead: make(map[int]ahead),
	}
	x.peers = peers.NewContexts(func(from, of *Context, reaches bool) gpubackend.Result {
		return x.hooks.Connect(from.GPU, of.GPU, reaches)
	})
	return x
}

// SetHooks is called once, before the first context is made.
func (x *Contexts) SetHooks(h Hooks) { x.hooks = h }

// Current is the current context; nil for none.
func (x *Contexts) Current() *Context { return x.state }

// CurrentGPU is the GPU of the current context; the first where there is none.
func (x *Contexts) CurrentGPU() int {
	if x.state == nil {
		return 0
	}
	return x.state.GPU
}

// CurrentHandle is the handle of the current context; 0 for none.
func (x *Contexts) CurrentHandle() gpubackend.Context { return x.current }

// Home is the context that owns what is made in the current one; nil without one.
func (x *Contexts) Home() *Context {
	if x.state == nil {
		return nil
	}
	return x.state.Home()
}

// Usable says whether a context is current and exists.
func (x *Contexts) Usable() bool { return x.state != nil && x.state.Exists() }

// Of returns the context of a handle, or nil.
func (x *Contexts) Of(h gpubackend.Context) *Context { return x.table[h] }

// All is every context of which there is a record.
func (x *Contexts) All() iter.Seq[*Context] { return maps.Values(x.table) }

// Known is how many there are.
func (x *Contexts) Known() int { return len(x.table) }

// Any returns some context that works, or nil.
func (x *Contexts) Any() *Context {
	for _, c := range x.table {
		if c.Exists() && c.Dead() == gpubackend.Success {
			return c
		}
	}
	return nil
}

// On returns a context of a GPU that works, the current one if it is of that GPU, else the primary
// one if there is one; nil for none.
func (x *Contexts) On(gpu int) (found *Context) {
	if x.Usable() && x.state.GPU == gpu {
		return x.state
	}
	for _, c := range x.table {
		if c.GPU == gpu && c.Base == nil && c.Exists() && (found == nil || c.primary) {
			found = c
		}
	}
	return found
}

// Idle says whether no context is known to have work in flight. It asks nobody.
func (x *Contexts) Idle() bool {
	for _, c := range x.table {
		if c.Work.Busy() {
			return false
		}
	}
	return true
}

// Failed remembers an error that ends the current context, and returns it.
func (x *Contexts) Failed(r gpubackend.Result) gpubackend.Result {
	if r.Sticky() && x.state != nil {
		x.state.Home().dead = r
	}
	return r
}

// SetCurrent makes a context current for the calling thread; 0 is none.
func (x *Contexts) SetCurrent(h gpubackend.Context) gpubackend.Result {
	if h == x.current {
		return gpubackend.Success
	}
	state := x.table[h]
	if h != 0 && state == nil {
		return gpubackend.InvalidContext
	}
	if r := x.calls.CtxSetCurrent(h); r != gpubackend.Success {
		return r
	}
	x.current, x.state = h, state
	if state == nil {
		x.calls.ReportTo(nil)
		return gpubackend.Success
	}
	x.calls.ReportTo(&state.Work)
	x.hooks.Current()
	return gpubackend.Success
}

// In makes a context current, if that is possible, and runs do. Then the previous context is
// current again.
func (x *Contexts) In(c *Context, do func() gpubackend.Result) gpubackend.Result {
	before := x.current
	r := x.SetCurrent(c.Handle)
	if r == gpubackend.Success {
		r = do()
	}
	x.SetCurrent(before)
	return r
}

// Green are the green contexts that are part of a context.
func (x *Contexts) Green(base *Context) iter.Seq[*Context] {
	return func(yield func(*Context) bool) {
		if x.green == 0 {
			return
		}
		for _, c := range x.table {
			if c.Base == base && !yield(c) {
				return
			}
		}
	}
}

// AddGreen makes a record of the context by which a green context is made current.
func (x *Contexts) AddGreen(h gpubackend.Context, base *Context) *Context {
	c := &Context{Handle: h, GPU: base.GPU, Base: base}
	x.table[h] = c
	x.green++
	return c
}

// RemoveGreen removes the record.
func (x *Contexts) RemoveGreen(c *Context) {
	if x.table[c.Handle] == c {
		delete(x.table, c.Handle)
		x.green--
	}
}
