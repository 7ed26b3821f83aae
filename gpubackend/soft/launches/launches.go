// SPDX-License-Identifier: Apache-2.0

package launches

import (
	"bytes"
	"errors"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/code"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/memory"
	"github.com/paracuda/paracuda/gpubackend/soft/output"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/simt"
	"github.com/paracuda/paracuda/gpubackend/soft/streams"
	"github.com/paracuda/paracuda/gpubackend/soft/textures"
)

// Options are what launches are given.
type Options struct {
	Host            *budget.Budget
	Scheduler       *scheduler.Scheduler
	Memory          *memory.Memory
	Code            *code.Code
	Textures        *textures.Textures
	Streams         *streams.Streams
	Output          *output.Buffer
	SetCondition    func(handle uint64, value uint32) bool // that kernels set in graphs
	Multiprocessors int
}

// Launches are the launches of a device's kernels.
type Launches struct {
	options Options
	grids   atomic.Uint64 // kernels launched
}

// New returns the launches of a device.
func New(o Options) *Launches { return &Launches{options: o} }

// partition is some of the device's multiprocessors: count of them, from the first on.
type partition struct{ first, count uint32 }

// partitionOf is the multiprocessors that work in a green context may use; all for nil.
func (x *Launches) partitionOf(g *contexts.Green) partition {
	if g != nil {
		return partition{g.First, g.Count}
	}
	return partition{0, uint32(x.options.Multiprocessors)}
}

// Check refuses nodes of graphs that couldn't be run.
func (x *Launches) Check(n *gpubackend.Node) gpubackend.Result {
	_, _, result := x.prepare(&n.Launch, uint32(x.options.Multiprocessors))
	return result
}

// PrepareNode prepares a node of a graph: the context is the function's.
func (x *Launches) PrepareNode(
	n *gpubackend.Node, _ *contexts.Context,
) (func() *scheduler.Task, gpubackend.Result) {
	l := &n.Launch
	f, cooperative, result := x.prepare(l, uint32(x.options.Multiprocessors))
	return func() *scheduler.Task { return x.kernelTask(f, l, l.Parameters, cooperative, nil) },
		result
}

// Launch implements gpubackend.Driver.
func (x *Launches) Launch(l *gpubackend.Launch) gpubackend.Result {
	s, result := x.options.Streams.Target(l.Stream)
	if result != gpubackend.Success {
		return result
	}
	f, cooperative, result := x.prepare(l, x.partitionOf(s.Green()).count)
	if result != gpubackend.Success {
		if f != nil {
			s.Spoil()
		}
		return result
	}
	if f.Module.Context != s.Context() {
		return gpubackend.InvalidHandle
	}
	if s.Recording() {
		return x.options.Streams.Record(s,
			&gpubackend.Node{Type: gpubackend.NodeKernel, Launch: *l})
	}
	// What a launch takes while it waits is no longer there for it when it runs.
	needs := simt.HostBytes(f.Entry, dim(l.Block).Count(), uint64(l.Shared))
	if !x.options.Host.Room(needs + waitingBytes(len(l.Parameters))) {
		return gpubackend.OutOfMemory
	}
	x.options.Streams.Enqueue(s,
		x.kernelTask(f, l, bytes.Clone(l.Parameters), cooperative, s.Green()))
	return gpubackend.Success
}

// prepare finds a launch's function and checks the rest against it and the multiprocessors that it
// may use. It returns the function even if the rest is wrong.
func (x *Launches) prepare(
	l *gpubackend.Launch, sms uint32,
) (f *code.Function, cooperative bool, result gpubackend.Result) {
	if f, result = x.options.Code.Function(l.Function); result != gpubackend.Success {
		return nil, false, result
	}
	if cooperative, result = launchAttributes(l.Attributes); result != gpubackend.Success {
		return nil, false, result
	}
	return f, cooperative, x.checkLaunch(f, l, cooperative, sms)
}

// kernelTask makes the task of a launch that was checked, in a green context or none. Nobody
// changes the parameters any more.
func (x *Launches) kernelTask(
	f *code.Function, l *gpubackend.Launch, parameters []byte, cooperative bool, g *contexts.Green,
) *scheduler.Task {
	c, part := f.Module.Context, x.partitionOf(g)
	if missing := f.Entry.ParamSize - len(parameters); missing > 0 {
		parameters = append(bytes.Clone(parameters), make([]byte, missing)...)
	}
	run := &simt.Launch{
		Kernel: f.Entry, Grid: dim(l.Grid), Block: dim(l.Block), SharedBytes: l.Shared,
		Params: parameters, Memory: x.options.Memory.Space().View(c.GPU),
		Heap:   f.Module.KernelHeap(),
		Stdout: x.options.Output.Writer(1), Assert: x.options.Output.Writer(2),
		Cooperative: cooperative, GridID: x.grids.Add(1), SMs: uint32(x.options.Multiprocessors),
		HostMemory: x.options.Host, SetConditional: x.options.SetCondition,
		Objects:  x.options.Textures.KernelObjects(),
		Bindings: x.options.Textures.Bindings(f.Module),
	}
	if g != nil {
		run.FirstSM, run.PartSMs = part.first, part.count
	}
	return &scheduler.Task{
		Class: scheduler.Kernel, Domain: c.Domain, Run: func() { x.execute(c, run) },
		Payload: waitingBytes(len(parameters)),
	}
}

// waitingBytes is what a launch that waits counts for with its parameters.
func waitingBytes(parameters int) uint64 { return scheduler.LaunchBytes + 2*uint64(parameters) }

func dim(size [3]uint32) simt.Dim { return simt.Dim{X: size[0], Y: size[1], Z: size[2]} }

// execute runs a kernel and notes how it ended.
func (x *Launches) execute(c *contexts.Context, run *simt.Launch) {
	err := run.Run(c.Alive())
	var fault *simt.KernelError
	for more := true; more && errors.As(err, &fault) && fault.Starved; {
		more = x.options.Scheduler.AwaitKernel()
		err = run.Run(c.Alive())
	}
	if err == nil || c.Alive().Err() != nil && !errors.As(err, new(*simt.KernelError)) {
		return
	}
	result := gpubackend.LaunchFailed
	if errors.As(err, &fault) && (gpubackend.Result(fault.Code).Sticky() ||
		fault.Code == cudaabi.ErrorOutOfMemory) {
		result = gpubackend.Result(fault.Code)
	}
	c.Fail(result)
}

// checkLaunch checks the sizes of a launch against those of the device and the function.
func (x *Launches) checkLaunch(
	f *code.Function, l *gpubackend.Launch, cooperative bool, sms uint32,
) gpubackend.Result {
	g, b := l.Grid, l.Block
	if g[0]-1 >= chip.MaxGridX || g[1]-1 >= chip.MaxGridYZ || g[2]-1 >= chip.MaxGridYZ ||
		b[0]-1 >= chip.MaxBlockXY || b[1]-1 >= chip.MaxBlockXY || b[2]-1 >= chip.MaxBlockZ {
		return gpubackend.InvalidValue
	}
	threads := int(b[0] * b[1] * b[2]) // at most 2^26
	if threads > chip.MaxThreadsPerBlock || int64(l.Shared) > int64(f.MostDynamic()) {
		return gpubackend.InvalidValue
	}
	// Dynamic shared memory begins after the static, aligned.
	static := (f.Entry.StaticShared + chip.SharedUnit - 1) / chip.SharedUnit * chip.SharedUnit
	if l.Shared > 0 && static+uint64(l.Shared) > chip.SharedPerBlockOptIn {
		return gpubackend.InvalidValue
	}
	if r := f.Entry.ReqThreads; r != [3]int{} && r != [3]int{int(b[0]), int(b[1]), int(b[2])} {
		return gpubackend.InvalidValue
	}
	if n := chip.Volume(f.Entry.MaxThreads); n > 0 && threads > n {
		return gpubackend.InvalidValue
	}
	if threads > chip.MaxThreads(f.Entry) {
		return gpubackend.LaunchOutOfResources
	}
	if r := checkParameters(len(l.Parameters), f.Entry.ParamSize); r != gpubackend.Success {
		return r
	}
	if cooperative {
		room := uint64(f.Blocks(threads, uint64(l.Shared))) * uint64(sms)
		if uint64(g[0]) > room || uint64(g[0])*uint64(g[1]) > room || dim(g).Count() > room {
			return gpubackend.CooperativeLaunchTooLarge
		}
	}
	return gpubackend.Success
}

// checkParameters checks how many bytes of parameters a launch has against what the function takes,
// as driver 580 does: too few are accepted, none aren't.
func checkParameters(n, size int) gpubackend.Result {
	switch {
	case n > size:
		return gpubackend.LaunchOutOfResources
	case n == 0 && size > 0:
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// launchAttributes reads a list of CUlaunchAttribute. Those that only advise are ignored.
func launchAttributes(list []byte) (cooperative bool, result gpubackend.Result) {
	for ; len(list) >= cudaabi.LaunchAttributeSize; list = list[cudaabi.LaunchAttributeSize:] {
		a := cudaabi.LaunchAttribute(list)
		switch id, value := a.ID(), a.Value(); id {
		case cudaabi.LaunchAttributeCooperative:
			cooperative = value.Cooperative() != 0
		case cudaabi.LaunchAttributeClusterDimension:
			if value.ClusterDimX() > 1 || value.ClusterDimY() > 1 || value.ClusterDimZ() > 1 {
				return false, gpubackend.NotSupported
			}
		case cudaabi.LaunchAttributeProgrammaticEvent, cudaabi.LaunchAttributeLaunchCompletionEvent,
			cudaabi.LaunchAttributeDeviceUpdatableKernelNode:
			return false, gpubackend.NotSupported
		default:
			if !allowed.LaunchAttribute.Has(uint64(id)) {
				return false, gpubackend.InvalidValue
			}
		}
	}
	if len(list) != 0 {
		return false, gpubackend.InvalidValue
	}
	return cooperative, gpubackend.Success
}
