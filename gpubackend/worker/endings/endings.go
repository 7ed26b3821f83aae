// SPDX-License-Identifier: Apache-2.0

// Package endings ends what belongs to a context that ends: its objects, the threads' default
// streams in it, and what rooms keep for it. It also notes which context is a device's primary one,
// which is ended by the device's number.
//
// The worker's loop owns an Endings. Handles are the guest's, and may name nothing: then the device
// refuses, and only streams are forgotten, which the guest's threads get again.
package endings

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// Contexts are the contexts of the guest process.
type Contexts interface {
	Primary(device uint64) (handle uint64, retained bool)
	Retained(device, handle uint64)
	// LeaveGreen is called before a context ends, Ended when it has, or couldn't.
	LeaveGreen()
	Ended(handle uint64)
}

// Room is a room that keeps something for a context.
type Room interface{ Forget(context uint64) }

// Endings are those of a guest process's contexts.
type Endings struct {
	Contexts Contexts
	Streams  Room // the threads' default streams, which end before the context
	Objects  interface{ RemoveChildren(parent uint64) }
	Rooms    []Room // forget when the context has ended, in this order
	Greens   interface{ Settle() }
}

// Steps are around the commands that end contexts, and around the one that retains a primary
// context.
func (e *Endings) Steps() call.Steps {
	return call.Steps{
		gpubackend.OpCtxDestroy: call.Around(command.DecodeCtxDestroy, e.destroy),
		gpubackend.OpDevicePrimaryCtxReset: call.Around(
			command.DecodeDevicePrimaryCtxReset, e.resetPrimary),
		gpubackend.OpDevicePrimaryCtxRelease: call.Around(
			command.DecodeDevicePrimaryCtxRelease, e.releasePrimary),
		gpubackend.OpDevicePrimaryCtxRetain: call.Around(
			command.DecodeDevicePrimaryCtxRetain, e.retainPrimary),
	}
}

// Ending says, for each command that ends a context, which one that is.
func (e *Endings) Ending() map[gpubackend.Op]func(*call.Call) uint64 {
	return map[gpubackend.Op]func(*call.Call) uint64{
		gpubackend.OpCtxDestroy: func(c *call.Call) uint64 {
			a, _ := command.DecodeCtxDestroy(c.Words(), c.Command.Body)
			return a.Ctx
		},
		gpubackend.OpDevicePrimaryCtxReset: func(c *call.Call) uint64 {
			a, _ := command.DecodeDevicePrimaryCtxReset(c.Words(), c.Command.Body)
			return e.primary(a.Dev)
		},
		gpubackend.OpDevicePrimaryCtxRelease: func(c *call.Call) uint64 {
			a, _ := command.DecodeDevicePrimaryCtxRelease(c.Words(), c.Command.Body)
			return e.primary(a.Dev)
		},
	}
}

// primary is a device's primary context, 0 if it has none.
func (e *Endings) primary(device uint64) uint64 {
	handle, _ := e.Contexts.Primary(device)
	return handle
}

func (e *Endings) destroy(
	c *call.Call, a command.CtxDestroy, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	return e.end(c, a.Ctx, run)
}

// releasePrimary and resetPrimary end a device's primary context, which keeps its handle.
func (e *Endings) releasePrimary(
	c *call.Call, a command.DevicePrimaryCtxRelease, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	return e.end(c, e.primary(a.Dev), run)
}

func (e *Endings) resetPrimary(
	c *call.Call, a command.DevicePrimaryCtxReset, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	return e.end(c, e.primary(a.Dev), run)
}

// end runs the end of a context and forgets what was in it.
func (e *Endings) end(
	c *call.Call, handle uint64, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	e.Streams.Forget(handle)
	e.Contexts.LeaveGreen()
	result := run(c)
	if result == gpubackend.Success {
		e.Objects.RemoveChildren(handle)
		for _, room := range e.Rooms {
			room.Forget(handle)
		}
		e.Greens.Settle()
	}
	e.Contexts.Ended(handle)
	return result
}

// retainPrimary remembers which context is a device's primary one.
func (e *Endings) retainPrimary(
	c *call.Call, a command.DevicePrimaryCtxRetain, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	result := run(c)
	if answer, ok := command.DecodeDevicePrimaryCtxRetainAnswer(c.Answers()); ok &&
		result == gpubackend.Success {
		e.Contexts.Retained(a.Dev, answer.Pctx)
	}
	return result
}
