// SPDX-License-Identifier: Apache-2.0

package driver

// #include "series.h"
// #cgo noescape pc_series_build
// #cgo nocallback pc_series_build
// #cgo noescape pc_series_launch
// #cgo nocallback pc_series_launch
import "C"

import (
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
)

// Series is an instantiated CUDA graph of launches, one after the other, in C memory.
type Series struct{ memory cmem.Memory }

func (c *Series) c() *C.struct_pc_series { return (*C.struct_pc_series)(c.memory.Pointer()) }

// seriesFunctions are the driver's graph functions, in C memory.
type seriesFunctions struct{ memory cmem.Memory }

func (f *seriesFunctions) c(l *library) *C.struct_pc_series_api {
	if f.memory.Pointer() == nil {
		f.memory = cmem.Allocate(int(C.sizeof_struct_pc_series_api))
		*(*C.struct_pc_series_api)(f.memory.Pointer()) = C.struct_pc_series_api{
			create:       l.function[symSeriesCreate],
			add_kernel:   l.function[symSeriesAddKernel],
			instantiate:  l.function[symSeriesInstantiate],
			set_params:   l.function[symSeriesSetParams],
			launch:       l.function[symSeriesLaunch],
			exec_destroy: l.function[symSeriesExecDestroy],
			destroy:      l.function[symSeriesDestroy],
		}
	}
	return (*C.struct_pc_series_api)(f.memory.Pointer())
}

// CanMakeSeries says whether the driver has the functions that series need.
func (d Launches) CanMakeSeries() bool {
	for s := symSeriesCreate; s <= symSeriesDestroy; s++ {
		if d.function[s] == nil {
			return false
		}
	}
	return true
}

// BuildSeries makes a series of the first n launches that are packed, or returns nil.
func (d Launches) BuildSeries(n int) *Series {
	c := &Series{cmem.Allocate(int(C.sizeof_struct_pc_series))}
	if C.pc_series_build(d.series.c(d.library), c.c(), &d.scratch.launch[0], C.int32_t(n)) != 0 {
		c.memory.Free()
		return nil
	}
	return c
}

// LaunchSeries launches a series in the stream of the launches that are packed, of which there are
// as many as it has. Those that have changed, a byte for each, are patched first.
func (d Launches) LaunchSeries(c *Series, changed []byte) gpubackend.Result {
	d.Touch(gpubackend.Stream(d.scratch.launch[0].stream))
	// SAFETY: C reads a byte for each node of the series during the call.
	at := (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(changed)))
	return gpubackend.Result(C.pc_series_launch(d.series.c(d.library), c.c(), &d.scratch.launch[0],
		at))
}

// FreeSeries ends a series.
func (d Launches) FreeSeries(c *Series) {
	C.pc_series_free(d.series.c(d.library), c.c())
	c.memory.Free()
}
