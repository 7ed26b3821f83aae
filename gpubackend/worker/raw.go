// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strings"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// table has every handler at its op: the generated ones, the steps of the protocol, and the functions of class raw.
var table [1024]handler

func init() {
	for op, h := range handlers {
		table[op] = h
	}
	for op, h := range map[gpubackend.Op]handler{
		gpubackend.Op(wire.OpHello):                   {words: 4, noContext: true, run: runHello},
		gpubackend.Op(wire.OpUnmap):                   {words: 1, noContext: true, run: runUnmap},
		gpubackend.Op(wire.OpReport):                  {words: 2, noContext: true, run: runReport},
		gpubackend.Op(wire.OpThreadExit):              {noContext: true, run: runThreadExit},
		gpubackend.Op(wire.OpJoin):                    {noContext: true, run: runJoin},
		gpubackend.OpCtxSynchronize:                   {run: runCtxSynchronize},
		gpubackend.OpStreamSynchronize:                {words: 1, run: runStreamSynchronize},
		gpubackend.OpEventSynchronize:                 {words: 1, run: runEventSynchronize},
		gpubackend.OpLaunchKernel:                     {words: launchWords, run: runLaunchKernel},
		gpubackend.OpHostRegister:                     {words: 4, noContext: true, run: runHostRegister},
		gpubackend.OpHostUnregister:                   {words: 1, noContext: true, run: runHostUnregister},
		gpubackend.OpHostKeep:                         {words: 5, noContext: true, run: runHostKeep},
		gpubackend.OpHostPageable:                     {words: 3, noContext: true, run: runHostPageable},
		gpubackend.OpCopyHtoD:                         {words: 6, run: runCopyHtoD},
		gpubackend.OpCopyDtoH:                         {words: 6, run: runCopyDtoH},
		gpubackend.OpCopyBox:                          {words: 13, run: runCopyBox},
		gpubackend.OpHostFunc:                         {words: 2, run: runHostFunc},
		gpubackend.OpMemAllocAsync:                    {words: 3, run: runAllocAsync},
		gpubackend.OpMemFreeAsync:                     {words: 2, run: runFreeAsync},
		gpubackend.OpMemPoolCreate:                    {words: 3, noContext: true, run: runPoolCreate},
		gpubackend.OpMemPoolDestroy:                   {words: 1, noContext: true, run: runPoolDestroy},
		gpubackend.OpPoolDefault:                      {words: 1, noContext: true, run: runPoolDefault},
		gpubackend.OpMemPoolGetAttribute:              {words: 2, noContext: true, run: runPoolGetAttribute},
		gpubackend.OpMemPoolSetAttribute:              {words: 3, noContext: true, run: runPoolSetAttribute},
		gpubackend.OpMemPoolTrimTo:                    {words: 2, noContext: true, run: runPoolTrim},
		gpubackend.OpMemAddressReserve:                {words: 2, noContext: true, run: runReserve},
		gpubackend.OpMemAddressFree:                   {words: 2, noContext: true, run: runUnreserve},
		gpubackend.OpMemCreate:                        {words: 3, noContext: true, run: runCreateMemory},
		gpubackend.OpMemRelease:                       {words: 1, noContext: true, run: runReleaseMemory},
		gpubackend.OpMemMap:                           {words: 3, noContext: true, run: runMapMemory},
		gpubackend.OpMemUnmap:                         {words: 2, noContext: true, run: runUnmapMemory},
		gpubackend.OpMemSetAccess:                     {words: 4, noContext: true, run: runProtect},
		gpubackend.OpTexObjectCreate:                  {words: 6, run: runTexObjectCreate},
		gpubackend.OpSurfObjectCreate:                 {words: 2, run: runSurfObjectCreate},
		gpubackend.OpCopyArray:                        {words: 3, run: runCopyArray},
		gpubackend.OpTexRefGetArray:                   boundTo((*Worker).findTextureReference, gpubackend.Driver.TexRefGetArray, object.Array),
		gpubackend.OpSurfRefGetArray:                  boundTo((*Worker).findSurfaceReference, gpubackend.Driver.SurfRefGetArray, object.Array),
		gpubackend.OpTexRefGetMipmappedArray:          boundTo((*Worker).findTextureReference, gpubackend.Driver.TexRefGetMipmappedArray, object.MipmappedArray),
		gpubackend.OpIpcGetMemHandle:                  {words: 1, run: runIpcShare},
		gpubackend.OpIpcOpenMemHandle:                 {words: 5, run: runIpcOpen},
		gpubackend.OpIpcCloseMemHandle:                {words: 1, run: runIpcClose},
		gpubackend.OpIpcGetEventHandle:                {words: 1, run: runIpcShareEvent},
		gpubackend.OpIpcOpenEventHandle:               {words: 2, run: runIpcOpenEvent},
		gpubackend.OpDevResource:                      {words: 5, noContext: true, run: runDevResource},
		gpubackend.OpResourceSplit:                    {words: 5, noContext: true, run: runResourceSplit},
		gpubackend.OpResourceDesc:                     {words: 2, noContext: true, run: runResourceDesc},
		gpubackend.OpGreenCtxCreate:                   {words: 3, noContext: true, run: runGreenCtxCreate},
		gpubackend.OpGreenCtxDestroy:                  {words: 1, noContext: true, run: runGreenCtxDestroy},
		gpubackend.OpMemExportToShareableHandle:       {words: 1, noContext: true, run: runExportMemory},
		gpubackend.OpMemImportFromShareableHandle:     {words: 1, noContext: true, run: runImportMemory},
		gpubackend.OpMemPoolExportToShareableHandle:   {words: 1, noContext: true, run: runPoolExport},
		gpubackend.OpMemPoolImportFromShareableHandle: {words: 1, noContext: true, run: runPoolImport},
		gpubackend.OpMemPoolExportPointer:             {words: 1, noContext: true, run: runPoolExportPointer},
		gpubackend.OpMemPoolImportPointer:             {words: 5, run: runPoolImportPointer},
	} {
		table[op] = h
	}
	// A context that goes takes its threads' default streams along.
	wrap(gpubackend.OpCtxDestroy, (*Worker).endContext)
	wrap(gpubackend.OpDevicePrimaryCtxReset, (*Worker).endContext)
	wrap(gpubackend.OpDevicePrimaryCtxRelease, (*Worker).endContext)
	wrap(gpubackend.OpDevicePrimaryCtxRetain, (*Worker).retainPrimary)
	// Memory that pools keep must not be what others lack.
	wrap(gpubackend.OpMemAlloc, (*Worker).allocate)
	wrap(gpubackend.OpMemFree, (*Worker).freePooled)
	wrap(gpubackend.OpStreamQuery, (*Worker).queryStream)
	wrap(gpubackend.OpStreamDestroy, (*Worker).endStream)
	wrap(gpubackend.OpEventDestroy, (*Worker).endEvent)
	wrap(gpubackend.OpTexRefDestroy, (*Worker).endReference)
	wrap(gpubackend.OpLibraryUnload, (*Worker).endLibrary)
	for _, op := range naming {
		wrap(op, (*Worker).boundGraphs)
	}
}

// wrap puts a step of the worker's own around a generated handler.
func wrap(op gpubackend.Op, around func(*Worker, *call, func(*Worker, *call) gpubackend.Result) gpubackend.Result) {
	h := table[op]
	run := h.run
	h.run = func(w *Worker, c *call) gpubackend.Result { return around(w, c, run) }
	table[op] = h
}

// runHello opens the device with the guest process's CUDA environment and answers with the device snapshot.
func runHello(w *Worker, c *call) gpubackend.Result {
	if w.opened {
		return gpubackend.NotPermitted
	}
	env, result := w.input(c, 0)
	if result != gpubackend.Success {
		return result
	}
	variables := strings.FieldsFunc(string(env), func(r rune) bool { return r == 0 })
	if !w.driver.Suits(variables) {
		return w.askCold()
	}
	out, result := w.output(c, 2)
	if result != gpubackend.Success {
		return result
	}
	defer out.done()
	s, result := w.driver.Open(variables)
	if result != gpubackend.Success {
		return result
	}
	size := wire.SnapshotSize + len(s.Device)*wire.SnapshotDeviceSize
	if size > len(out.bytes) {
		return gpubackend.InvalidValue
	}
	s.Devices = uint32(len(s.Device))
	s.Encode(out.bytes)
	for i := range s.Device {
		s.Device[i].Encode(out.bytes[wire.SnapshotSize+i*wire.SnapshotDeviceSize:])
	}
	w.opened = true
	w.countStart()
	c.answer(uint64(size))
	return gpubackend.Success
}

func runUnmap(w *Worker, c *call) gpubackend.Result {
	m := w.findMap(uint32(c.word(0)))
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
func runReport(w *Worker, c *call) gpubackend.Result {
	name, result := w.text(c, 0)
	if result != gpubackend.Success || len(name) > maxReportName {
		return gpubackend.Success
	}
	w.log.WithField("function", name).Warn("a program called a function that is not implemented and returned CUDA_ERROR_NOT_SUPPORTED")
	return gpubackend.Success
}

func runThreadExit(w *Worker, c *call) gpubackend.Result {
	w.streams.end(w, c.slot)
	return gpubackend.Success
}

// endContext runs the end of a context and forgets what was in it. A primary context keeps its handle.
func (w *Worker) endContext(c *call, run func(*Worker, *call) gpubackend.Result) gpubackend.Result {
	handle := c.word(0)
	if c.op != gpubackend.OpCtxDestroy {
		handle = w.primary[handle]
	}
	w.streams.forget(handle)
	w.leaveGreen()
	result := run(w, c)
	if result == gpubackend.Success {
		w.objects.RemoveChildren(handle)
		w.forgetKernels(handle)
		w.pools.forget(handle)
		w.shares.forget(handle)
		delete(w.fences.free, handle)
		w.greens.settle(w)
	}
	if handle == w.context {
		w.context = 0
	}
	return result
}

// retainPrimary remembers which context is whose device's primary one.
func (w *Worker) retainPrimary(c *call, run func(*Worker, *call) gpubackend.Result) gpubackend.Result {
	result := run(w, c)
	if result == gpubackend.Success {
		w.primary[c.word(0)] = c.outs[0]
	}
	return result
}
