// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"errors"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/code"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/simt"
)

// Launch implements gpubackend.Driver.
func (d *Device) Launch(l *gpubackend.Launch) gpubackend.Result {
	s, result := d.target(l.Stream)
	if result != gpubackend.Success {
		return result
	}
	f, cooperative, result := d.prepare(l, d.multiprocessors(s.group.green).count)
	if result != gpubackend.Success {
		if f != nil {
			s.spoil()
		}
		return result
	}
	if f.Module.Context != s.ctx {
		return gpubackend.InvalidHandle
	}
	if s.capture != nil {
		return d.record(s, &gpubackend.Node{Type: gpubackend.NodeKernel, Launch: *l})
	}
	// What it takes while it waits leaves what it needs when it runs.
	needs := f.Entry.HostBytes(dim(l.Block).Count(), uint64(l.Shared))
	if !d.options.HostMemory.Room(needs + waitingBytes(len(l.Parameters))) {
		return gpubackend.OutOfMemory
	}
	d.enqueue(s, d.kernelTask(f, l, bytes.Clone(l.Parameters), cooperative, s.group.green))
	return gpubackend.Success
}

// prepare finds a launch's function and checks the rest against it and the multiprocessors that it
// may use. It returns the function also where only that is wrong.
func (d *Device) prepare(l *gpubackend.Launch, sms uint32) (f *code.Function, cooperative bool, result gpubackend.Result) {
	if f, result = d.Function(l.Function); result != gpubackend.Success {
		return nil, false, result
	}
	if cooperative, result = launchAttributes(l.Attributes); result != gpubackend.Success {
		return nil, false, result
	}
	return f, cooperative, d.checkLaunch(f, l, cooperative, sms)
}

// kernelTask makes the task of a launch that was checked, in a green context or none. Nobody
// changes the parameters any more.
func (d *Device) kernelTask(
	f *code.Function, l *gpubackend.Launch, parameters []byte, cooperative bool, g *contexts.Green,
) *scheduler.Task {
	c, part := f.Module.Context, d.multiprocessors(g)
	if missing := f.Entry.ParamSize - len(parameters); missing > 0 {
		parameters = append(bytes.Clone(parameters), make([]byte, missing)...)
	}
	run := &simt.Launch{
		Kernel: f.Entry, Grid: dim(l.Grid), Block: dim(l.Block), SharedBytes: l.Shared,
		Params: parameters, Memory: d.Space(), Heap: f.Module.KernelHeap(),
		Stdout: d.Buffer.Writer(1), Assert: d.Buffer.Writer(2),
		Cooperative: cooperative, GridID: d.grids.Add(1), SMs: uint32(d.options.Multiprocessors),
		HostMemory: d.options.HostMemory, SetConditional: d.conditions.set, Objects: d.KernelObjects(), Bindings: d.Bindings(f.Module),
	}
	if g != nil {
		run.FirstSM, run.PartSMs = part.first, part.count
	}
	return &scheduler.Task{
		Class: scheduler.Kernel, Domain: c.Domain, Run: func() { d.execute(c, run) }, Payload: waitingBytes(len(parameters)),
	}
}

// waitingBytes is what a launch that waits counts for with its parameters.
func waitingBytes(parameters int) uint64 { return scheduler.LaunchBytes + 2*uint64(parameters) }

func dim(size [3]uint32) simt.Dim { return simt.Dim{X: size[0], Y: size[1], Z: size[2]} }

// execute runs a kernel and notes how it ended.
func (d *Device) execute(c *contexts.Context, run *simt.Launch) {
	err := run.Run(c.Alive())
	var fault *simt.Fault
	for more := true; more && errors.As(err, &fault) && fault.Starved; {
		more = d.scheduler.AwaitKernel()
		err = run.Run(c.Alive())
	}
	if err == nil || c.Alive().Err() != nil && !errors.As(err, new(*simt.Fault)) {
		return
	}
	result := gpubackend.LaunchFailed
	if errors.As(err, &fault) && (gpubackend.Result(fault.Code).Sticky() || fault.Code == simt.CodeOutOfMemory) {
		result = gpubackend.Result(fault.Code)
	}
	c.Fail(result)
}

// checkLaunch checks the sizes of a launch against those of the device and the function.
func (d *Device) checkLaunch(f *code.Function, l *gpubackend.Launch, cooperative bool, sms uint32) gpubackend.Result {
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
// as driver 580 does: fewer will do, none won't.
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
