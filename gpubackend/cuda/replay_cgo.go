// SPDX-License-Identifier: Apache-2.0

package cuda

// #include "replay.h"
// #cgo noescape pc_graph_build
// #cgo nocallback pc_graph_build
// #cgo noescape pc_graph_replay
// #cgo nocallback pc_graph_replay
import "C"

import (
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend"
)

// graph is an instantiated graph in C memory.
type graph struct{ memory block }

func (g *graph) c() *C.struct_pc_graph { return (*C.struct_pc_graph)(g.memory.p) }

// graphFunctions are the driver's graph functions, in C memory.
type graphFunctions struct{ memory block }

func (f *graphFunctions) c(l *library) *C.struct_pc_graph_api {
	if f.memory.p == nil {
		f.memory = allocate(int(C.sizeof_struct_pc_graph_api))
		*(*C.struct_pc_graph_api)(f.memory.p) = C.struct_pc_graph_api{
			create: l.function[symReplayCreate], add_kernel: l.function[symReplayAddKernel],
			instantiate: l.function[symReplayInstantiate], set_params: l.function[symReplaySetParams],
			launch: l.function[symReplayLaunch], exec_destroy: l.function[symReplayExecDestroy], destroy: l.function[symReplayDestroy],
		}
	}
	return (*C.struct_pc_graph_api)(f.memory.p)
}

// canReplay says whether the driver has what replays need.
func (d *Device) canReplay() bool {
	for s := symReplayCreate; s <= symReplayDestroy; s++ {
		if d.function[s] == nil {
			return false
		}
	}
	return d.options.GraphReplay
}

// pack puts launches into the scratch memory. false: their parameters are too many.
func (d *Device) pack(ls []gpubackend.Launch) bool {
	s := &d.launches
	s.used = 0
	for i := range ls {
		if !s.fill(i, &ls[i]) {
			return false
		}
	}
	return true
}

// packed is the parameters that pack has put there, each padded to 16 bytes.
func (d *Device) packed() []byte { return d.launches.parameters[:d.launches.used] }

// buildGraph makes a graph of the n launches that are packed, or nil.
func (d *Device) buildGraph(n int) *graph {
	g := &graph{allocate(int(C.sizeof_struct_pc_graph))}
	if C.pc_graph_build(d.graphs.c(&d.library), g.c(), &d.launches.launch[0], C.int32_t(n)) != 0 {
		g.memory.free()
		return nil
	}
	return g
}

func (d *Device) replayGraph(g *graph, changed []byte) gpubackend.Result {
	return gpubackend.Result(C.pc_graph_replay(
		d.graphs.c(&d.library), g.c(), &d.launches.launch[0], (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(changed)))))
}

func (d *Device) freeGraph(g *graph) {
	C.pc_graph_free(d.graphs.c(&d.library), g.c())
	g.memory.free()
}
