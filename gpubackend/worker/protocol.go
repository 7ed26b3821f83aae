// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// core are the commands that are the core's own: the steps of the protocol.
func (w *Worker) core() call.Handlers {
	return call.Handlers{
		gpubackend.Op(wire.OpUnmap):      call.Decoded(command.DecodeUnmap, w.runUnmap),
		gpubackend.Op(wire.OpReport):     call.Decoded(command.DecodeReport, w.runReport),
		gpubackend.Op(wire.OpThreadExit): call.Decoded(command.DecodeThreadExit, w.runThreadExit),
	}
}

// steps are the core's own around generated handlers.
func (w *Worker) steps() call.Steps {
	return call.Steps{
		// A context that goes takes its threads' default streams along.
		gpubackend.OpCtxDestroy: call.Around(command.DecodeCtxDestroy, w.destroyContext),
		gpubackend.OpDevicePrimaryCtxReset: call.Around(
			command.DecodeDevicePrimaryCtxReset, w.resetPrimary),
		gpubackend.OpDevicePrimaryCtxRelease: call.Around(
			command.DecodeDevicePrimaryCtxRelease, w.releasePrimary),
		gpubackend.OpDevicePrimaryCtxRetain: call.Around(
			command.DecodeDevicePrimaryCtxRetain, w.retainPrimary),
	}
}

func (w *Worker) runUnmap(c *call.Call, a command.Unmap) gpubackend.Result {
	m := w.maps.Find(uint32(a.Map))
	if m == nil {
		return gpubackend.InvalidValue
	}
	if w.hostMemory.Holds(m) {
		return gpubackend.NotPermitted
	}
	w.maps.Give(m)
	return gpubackend.Success
}

// maxReportName is as long as any function's name.
const maxReportName = 64

// runReport logs a function that the guest's library lacks. The library reports each once.
func (w *Worker) runReport(c *call.Call, a command.Report) gpubackend.Result {
	name, result := c.TextOf(a.Name)
	if result != gpubackend.Success || len(name) > maxReportName {
		return gpubackend.Success
	}
	w.log.WithField("function", name).Warn("a program called a function that is not implemented " +
		"and returned CUDA_ERROR_NOT_SUPPORTED")
	return gpubackend.Success
}

func (w *Worker) runThreadExit(c *call.Call, _ command.ThreadExit) gpubackend.Result {
	w.streams.EndThread(c.Slot)
	return gpubackend.Success
}

func (w *Worker) destroyContext(
	c *call.Call, a command.CtxDestroy, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	return w.endContext(c, a.Ctx, run)
}

// releasePrimary and resetPrimary end a device's primary context, which keeps its handle.
func (w *Worker) releasePrimary(
	c *call.Call, a command.DevicePrimaryCtxRelease, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	handle, _ := w.contexts.Primary(a.Dev)
	return w.endContext(c, handle, run)
}

func (w *Worker) resetPrimary(
	c *call.Call, a command.DevicePrimaryCtxReset, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	handle, _ := w.contexts.Primary(a.Dev)
	return w.endContext(c, handle, run)
}

// endContext runs the end of a context and forgets what was in it.
func (w *Worker) endContext(
	c *call.Call, handle uint64, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	w.streams.Forget(handle)
	w.contexts.LeaveGreen()
	result := run(c)
	if result == gpubackend.Success {
		w.objects.RemoveChildren(handle)
		w.kernels.Forget(handle)
		w.pools.Forget(handle)
		w.sharing.Forget(handle)
		w.fences.Forget(handle)
		w.textures.Forget(handle)
		w.greens.Settle()
	}
	w.contexts.Ended(handle)
	return result
}

// retainPrimary remembers which context is whose device's primary one.
func (w *Worker) retainPrimary(
	c *call.Call, a command.DevicePrimaryCtxRetain, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	result := run(c)
	if answer, ok := command.DecodeDevicePrimaryCtxRetainAnswer(c.Answers()); ok &&
		result == gpubackend.Success {
		w.contexts.Retained(a.Dev, answer.Pctx)
	}
	return result
}
