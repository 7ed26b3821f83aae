// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strings"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// buildTable makes the table of handlers: the generated ones, the steps of the protocol, and the
// functions of class raw.
func (w *Worker) buildTable() {
	w.table = call.Table{}
	w.table.Add(w.described())
	w.table.Add(w.raw())
	w.table.Wrap(w.kernels.Steps())
	w.table.Wrap(w.steps())
}

// raw are the commands that are decoded by hand.
func (w *Worker) raw() call.Handlers {
	return call.Handlers{
		gpubackend.Op(wire.OpHello):                   {Words: 4, NoContext: true, Run: w.runHello},
		gpubackend.Op(wire.OpUnmap):                   {Words: 1, NoContext: true, Run: w.runUnmap},
		gpubackend.Op(wire.OpReport):                  {Words: 2, NoContext: true, Run: w.runReport},
		gpubackend.Op(wire.OpThreadExit):              {NoContext: true, Run: w.runThreadExit},
		gpubackend.Op(wire.OpJoin):                    {NoContext: true, Run: w.runJoin},
		gpubackend.OpCtxSynchronize:                   {Run: w.runCtxSynchronize},
		gpubackend.OpStreamSynchronize:                {Words: 1, Run: w.runStreamSynchronize},
		gpubackend.OpEventSynchronize:                 {Words: 1, Run: w.runEventSynchronize},
		gpubackend.OpLaunchKernel:                     {Words: launchWords, Run: w.runLaunchKernel},
		gpubackend.OpHostRegister:                     {Words: 4, NoContext: true, Run: w.runHostRegister},
		gpubackend.OpHostUnregister:                   {Words: 1, NoContext: true, Run: w.runHostUnregister},
		gpubackend.OpHostKeep:                         {Words: 5, NoContext: true, Run: w.runHostKeep},
		gpubackend.OpHostPageable:                     {Words: 3, NoContext: true, Run: w.runHostPageable},
		gpubackend.OpCopyHtoD:                         {Words: 6, Run: w.runCopyHtoD},
		gpubackend.OpCopyDtoH:                         {Words: 6, Run: w.runCopyDtoH},
		gpubackend.OpCopyBox:                          {Words: 13, Run: w.runCopyBox},
		gpubackend.OpHostFunc:                         {Words: 2, Run: w.runHostFunc},
		gpubackend.OpMemAllocAsync:                    {Words: 3, Run: w.runAllocAsync},
		gpubackend.OpMemFreeAsync:                     {Words: 2, Run: w.runFreeAsync},
		gpubackend.OpMemPoolCreate:                    {Words: 3, NoContext: true, Run: w.runPoolCreate},
		gpubackend.OpMemPoolDestroy:                   {Words: 1, NoContext: true, Run: w.runPoolDestroy},
		gpubackend.OpPoolDefault:                      {Words: 1, NoContext: true, Run: w.runPoolDefault},
		gpubackend.OpMemPoolGetAttribute:              {Words: 2, NoContext: true, Run: w.runPoolGetAttribute},
		gpubackend.OpMemPoolSetAttribute:              {Words: 3, NoContext: true, Run: w.runPoolSetAttribute},
		gpubackend.OpMemPoolTrimTo:                    {Words: 2, NoContext: true, Run: w.runPoolTrim},
		gpubackend.OpMemAddressReserve:                {Words: 2, NoContext: true, Run: w.runReserve},
		gpubackend.OpMemAddressFree:                   {Words: 2, NoContext: true, Run: w.runUnreserve},
		gpubackend.OpMemCreate:                        {Words: 3, NoContext: true, Run: w.runCreateMemory},
		gpubackend.OpMemRelease:                       {Words: 1, NoContext: true, Run: w.runReleaseMemory},
		gpubackend.OpMemMap:                           {Words: 3, NoContext: true, Run: w.runMapMemory},
		gpubackend.OpMemUnmap:                         {Words: 2, NoContext: true, Run: w.runUnmapMemory},
		gpubackend.OpMemSetAccess:                     {Words: 4, NoContext: true, Run: w.runProtect},
		gpubackend.OpTexObjectCreate:                  {Words: 6, Run: w.runTexObjectCreate},
		gpubackend.OpSurfObjectCreate:                 {Words: 2, Run: w.runSurfObjectCreate},
		gpubackend.OpCopyArray:                        {Words: 3, Run: w.runCopyArray},
		gpubackend.OpTexRefGetArray:                   boundTo(w, handles.TextureReference, w.driver.TexRefGetArray, object.Array),
		gpubackend.OpSurfRefGetArray:                  boundTo(w, handles.SurfaceReference, w.driver.SurfRefGetArray, object.Array),
		gpubackend.OpTexRefGetMipmappedArray:          boundTo(w, handles.TextureReference, w.driver.TexRefGetMipmappedArray, object.MipmappedArray),
		gpubackend.OpIpcGetMemHandle:                  {Words: 1, Run: w.runIpcShare},
		gpubackend.OpIpcOpenMemHandle:                 {Words: 5, Run: w.runIpcOpen},
		gpubackend.OpIpcCloseMemHandle:                {Words: 1, Run: w.runIpcClose},
		gpubackend.OpIpcGetEventHandle:                {Words: 1, Run: w.runIpcShareEvent},
		gpubackend.OpIpcOpenEventHandle:               {Words: 2, Run: w.runIpcOpenEvent},
		gpubackend.OpDevResource:                      {Words: 5, NoContext: true, Run: w.runDevResource},
		gpubackend.OpResourceSplit:                    {Words: 5, NoContext: true, Run: w.runResourceSplit},
		gpubackend.OpResourceDesc:                     {Words: 2, NoContext: true, Run: w.runResourceDesc},
		gpubackend.OpGreenCtxCreate:                   {Words: 3, NoContext: true, Run: w.runGreenCtxCreate},
		gpubackend.OpGreenCtxDestroy:                  {Words: 1, NoContext: true, Run: w.runGreenCtxDestroy},
		gpubackend.OpMemExportToShareableHandle:       {Words: 1, NoContext: true, Run: w.runExportMemory},
		gpubackend.OpMemImportFromShareableHandle:     {Words: 1, NoContext: true, Run: w.runImportMemory},
		gpubackend.OpMemPoolExportToShareableHandle:   {Words: 1, NoContext: true, Run: w.runPoolExport},
		gpubackend.OpMemPoolImportFromShareableHandle: {Words: 1, NoContext: true, Run: w.runPoolImport},
		gpubackend.OpMemPoolExportPointer:             {Words: 1, NoContext: true, Run: w.runPoolExportPointer},
		gpubackend.OpMemPoolImportPointer:             {Words: 5, Run: w.runPoolImportPointer},
	}
}

// steps are the worker's own around generated handlers.
func (w *Worker) steps() call.Steps {
	s := call.Steps{
		// A context that goes takes its threads' default streams along.
		gpubackend.OpCtxDestroy:              w.endContext,
		gpubackend.OpDevicePrimaryCtxReset:   w.endContext,
		gpubackend.OpDevicePrimaryCtxRelease: w.endContext,
		gpubackend.OpDevicePrimaryCtxRetain:  w.retainPrimary,
		// Memory that pools keep must not be what others lack.
		gpubackend.OpMemAlloc:      w.allocate,
		gpubackend.OpMemFree:       w.freePooled,
		gpubackend.OpStreamQuery:   w.queryStream,
		gpubackend.OpStreamDestroy: w.endStream,
		gpubackend.OpEventDestroy:  w.endEvent,
		gpubackend.OpTexRefDestroy: w.endReference,
	}
	for _, op := range naming {
		s[op] = w.boundGraphs
	}
	return s
}

// runHello opens the device with the guest process's CUDA environment and answers with the device snapshot.
func (w *Worker) runHello(c *call.Call) gpubackend.Result {
	if w.opened {
		return gpubackend.NotPermitted
	}
	env, result := c.Input(0)
	if result != gpubackend.Success {
		return result
	}
	variables := strings.FieldsFunc(string(env), func(r rune) bool { return r == 0 })
	if !w.driver.Suits(variables) {
		return w.askCold()
	}
	out, result := c.Output(2)
	if result != gpubackend.Success {
		return result
	}
	defer out.Done()
	s, result := w.driver.Open(variables)
	if result != gpubackend.Success {
		return result
	}
	size := wire.SnapshotSize + len(s.Device)*wire.SnapshotDeviceSize
	if size > len(out.Bytes) {
		return gpubackend.InvalidValue
	}
	s.Devices = uint32(len(s.Device))
	s.Encode(out.Bytes)
	for i := range s.Device {
		s.Device[i].Encode(out.Bytes[wire.SnapshotSize+i*wire.SnapshotDeviceSize:])
	}
	w.opened = true
	w.countStart()
	c.Answer(uint64(size))
	return gpubackend.Success
}

func (w *Worker) runUnmap(c *call.Call) gpubackend.Result {
	m := w.findMap(uint32(c.Word(0)))
	if m == nil {
		return gpubackend.InvalidValue
	}
	if w.hosts[m.id] != nil || m.shown > 0 {
		return gpubackend.NotPermitted
	}
	w.giveMap(m)
	return gpubackend.Success
}

// maxReportName is as long as any function's name.
const maxReportName = 64

// runReport logs a function that the guest's library lacks. The library reports each once.
func (w *Worker) runReport(c *call.Call) gpubackend.Result {
	name, result := c.Text(0)
	if result != gpubackend.Success || len(name) > maxReportName {
		return gpubackend.Success
	}
	w.log.WithField("function", name).Warn("a program called a function that is not implemented and returned CUDA_ERROR_NOT_SUPPORTED")
	return gpubackend.Success
}

func (w *Worker) runThreadExit(c *call.Call) gpubackend.Result {
	w.streams.EndThread(c.Slot)
	return gpubackend.Success
}

// endContext runs the end of a context and forgets what was in it. A primary context keeps its handle.
func (w *Worker) endContext(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	handle := c.Word(0)
	if c.Op != gpubackend.OpCtxDestroy {
		handle, _ = w.contexts.Primary(handle)
	}
	w.streams.Forget(handle)
	w.contexts.LeaveGreen()
	result := run(c)
	if result == gpubackend.Success {
		w.objects.RemoveChildren(handle)
		w.kernels.Forget(handle)
		w.pools.forget(handle)
		w.shares.forget(handle)
		w.fences.Forget(handle)
		w.greens.settle(w)
	}
	w.contexts.Ended(handle)
	return result
}

// retainPrimary remembers which context is whose device's primary one.
func (w *Worker) retainPrimary(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	result := run(c)
	if result == gpubackend.Success {
		w.contexts.Retained(c.Word(0), c.Answers()[0])
	}
	return result
}
