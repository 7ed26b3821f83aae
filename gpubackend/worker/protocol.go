// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strings"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// core are the commands that are the core's own: the steps of the protocol, and calls that wait.
func (w *Worker) core() call.Handlers {
	return call.Handlers{
		gpubackend.Op(wire.OpHello):      call.Decoded(command.DecodeHello, w.runHello),
		gpubackend.Op(wire.OpUnmap):      call.Decoded(command.DecodeUnmap, w.runUnmap),
		gpubackend.Op(wire.OpReport):     call.Decoded(command.DecodeReport, w.runReport),
		gpubackend.Op(wire.OpUsage):      call.Decoded(command.DecodeUsage, w.usage.run),
		gpubackend.Op(wire.OpThreadExit): call.Decoded(command.DecodeThreadExit, w.runThreadExit),
		gpubackend.OpCtxSynchronize: call.Decoded(command.DecodeCtxSynchronize,
			w.runCtxSynchronize),
		gpubackend.OpStreamSynchronize: call.Decoded(command.DecodeStreamSynchronize,
			w.runStreamSynchronize),
		gpubackend.OpEventSynchronize: call.Decoded(command.DecodeEventSynchronize,
			w.runEventSynchronize),
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
		gpubackend.OpStreamQuery:   w.queryStream,
		gpubackend.OpStreamDestroy: call.Around(command.DecodeStreamDestroy, w.endStream),
		gpubackend.OpEventDestroy:  call.Around(command.DecodeEventDestroy, w.endEvent),
	}
}

// runHello opens the device with the guest process's CUDA environment and answers with the device
// snapshot.
func (w *Worker) runHello(c *call.Call, a command.Hello) gpubackend.Result {
	if w.opened {
		return gpubackend.NotPermitted
	}
	env, result := c.InputOf(a.Environment)
	if result != gpubackend.Success {
		return result
	}
	variables := strings.FieldsFunc(string(env), func(r rune) bool { return r == 0 })
	if !w.driver.Suits(variables) {
		return w.askCold()
	}
	out, result := c.OutputOf(a.Snapshot)
	if result != gpubackend.Success {
		return result
	}
	defer out.Done()
	if result = w.open(variables); result != gpubackend.Success {
		return result
	}
	size := len(w.told.snapshot)
	if size > len(out.Bytes) {
		return gpubackend.InvalidValue
	}
	copy(out.Bytes, w.told.snapshot)
	w.opened = true
	w.countStart()
	c.Put(command.HelloAnswer{Bytes: uint64(size)})
	return gpubackend.Success
}

// told is what passed between the guest process and this one when it said HELLO.
type told struct {
	environment []string
	snapshot    []byte
}

// open opens the device for a process with these variables.
func (w *Worker) open(variables []string) gpubackend.Result {
	s, result := w.driver.Open(variables)
	if result != gpubackend.Success {
		return result
	}
	b := encoded(s)
	for i := range s.Device {
		w.usage.gpus = append(w.usage.gpus, ledger.ID(s.Device[i].Uuid))
	}
	if page := w.usage.accounts.Page(); page != nil && len(s.Device) == 1 {
		page.SetTotal(s.Device[0].TotalMemory)
	}
	w.told = told{variables, b}
	return gpubackend.Success
}

// encoded is a snapshot as the answer to HELLO.
func encoded(s *gpubackend.Snapshot) []byte {
	devices := wire.SnapshotSize + len(s.Device)*wire.SnapshotDeviceSize
	b := make([]byte, devices+len(s.Pair)*wire.SnapshotPairSize)
	s.Devices = uint32(len(s.Device))
	s.Encode(b)
	for i := range s.Device {
		s.Device[i].Encode(b[wire.SnapshotSize+i*wire.SnapshotDeviceSize:])
	}
	for i := range s.Pair {
		s.Pair[i].Encode(b[devices+i*wire.SnapshotPairSize:])
	}
	return b
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
