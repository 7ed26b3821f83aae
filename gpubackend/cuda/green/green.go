// SPDX-License-Identifier: Apache-2.0

// Package green has the green contexts: parts of a GPU that work is confined to. A green context
// has streams of its own; all else is its primary context's. Resources are the driver's own; they
// never come from a guest.
package green

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/gpus"
)

// Calls are the functions of the driver that are called here.
type Calls interface {
	CtxSynchronize() gpubackend.Result
	Resource(of gpubackend.ResourceSource, which, kind uint64) (gpubackend.Resource,
		gpubackend.Result)
	GreenCtxMake(desc gpubackend.ResourceDesc, device, flags uint64) (gpubackend.GreenContext,
		gpubackend.Result)
	GreenCtxEnd(g gpubackend.GreenContext) gpubackend.Result
	CtxFromGreenCtx(g gpubackend.GreenContext) (gpubackend.Context, gpubackend.Result)
	GreenCtxStreamCreate(g gpubackend.GreenContext, flags, priority uint64) (gpubackend.Stream,
		gpubackend.Result)
}

// Hooks are what other rooms do when green contexts come and go.
type Hooks struct {
	// Ending is called before a green context ends.
	Ending func()
	// Ended is told of one that has ended, and whose record goes.
	Ended func(c *contexts.Context)
	// Stream is told of a stream that was made in one.
	Stream func(s gpubackend.Stream, c *contexts.Context)
}

// Green is the green contexts of one guest process.
type Green struct {
	calls    Calls
	contexts *contexts.Contexts
	gpus     *gpus.List
	hooks    Hooks
	known    map[gpubackend.GreenContext]*contexts.Context
}

// New returns the green contexts of a process, which has none yet.
func New(calls Calls, x *contexts.Contexts, list *gpus.List, hooks Hooks) *Green {
	return &Green{
		calls: calls, contexts: x, gpus: list, hooks: hooks,
		known: make(map[gpubackend.GreenContext]*contexts.Context),
	}
}

// Greens is how many there are.
func (x *Green) Greens() int { return len(x.known) }

// DevResource asks the driver.
func (x *Green) DevResource(
	of gpubackend.ResourceSource, which, kind uint64,
) (r gpubackend.Resource, result gpubackend.Result) {
	if of != gpubackend.OfContext && of != gpubackend.OfGreenContext {
		i, ok := x.gpus.Find(which)
		if !ok {
			return r, gpubackend.InvalidDevice
		}
		of, which = gpubackend.OfDevice, x.gpus.At(i).Native
	}
	return x.calls.Resource(of, which, kind)
}

// GreenCtxCreate makes a green context, and a record of the context that it is made current by.
func (x *Green) GreenCtxCreate(
	desc gpubackend.ResourceDesc, dev, flags uint64,
) (gpubackend.GreenContext, gpubackend.Context, gpubackend.Result) {
	i, ok := x.gpus.Find(dev)
	if !ok {
		return 0, 0, gpubackend.InvalidDevice
	}
	base := x.contexts.Primary(i)
	if base == nil || !base.Exists() {
		return 0, 0, gpubackend.InvalidContext
	}
	g, r := x.calls.GreenCtxMake(desc, x.gpus.At(i).Native, flags)
	if r != gpubackend.Success {
		return 0, 0, r
	}
	h, r := x.calls.CtxFromGreenCtx(g)
	if r != gpubackend.Success {
		x.calls.GreenCtxEnd(g)
		return 0, 0, r
	}
	if x.contexts.Of(h) != nil { // its work couldn't be told from that context's
		x.calls.GreenCtxEnd(g)
		return 0, 0, gpubackend.NotSupported
	}
	x.known[g] = x.contexts.AddGreen(h, base)
	return g, h, gpubackend.Success
}

// GreenCtxDestroy waits for the work in a green context and ends it.
func (x *Green) GreenCtxDestroy(g gpubackend.GreenContext) gpubackend.Result {
	c, ok := x.known[g]
	if !ok {
		return gpubackend.InvalidContext
	}
	x.hooks.Ending()
	if x.contexts.Current() == c {
		x.contexts.SetCurrent(c.Base.Handle)
	}
	x.contexts.In(c, x.calls.CtxSynchronize)
	r := x.calls.GreenCtxEnd(g)
	if r == gpubackend.Success {
		x.forget(g, c)
	}
	return r
}

func (x *Green) forget(g gpubackend.GreenContext, c *contexts.Context) {
	delete(x.known, g)
	x.hooks.Ended(c)
	x.contexts.RemoveGreen(c)
}

// GreenCtxStreamCreate makes a stream in a green context, whichever context is current.
func (x *Green) GreenCtxStreamCreate(
	g gpubackend.GreenContext, flags, priority uint64,
) (gpubackend.Stream, gpubackend.Result) {
	c, ok := x.known[g]
	if !ok {
		return 0, gpubackend.InvalidContext
	}
	s, r := x.calls.GreenCtxStreamCreate(g, flags, priority)
	if r == gpubackend.Success {
		x.hooks.Stream(s, c)
	}
	return s, r
}

// Ended forgets the green contexts of a context that has ended.
func (x *Green) Ended(base *contexts.Context) {
	for g, c := range x.known {
		if c.Base == base {
			x.forget(g, c)
		}
	}
}
