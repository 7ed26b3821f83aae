// SPDX-License-Identifier: Apache-2.0

package launches

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// launchDevices launches a kernel on several devices.
func (b *Launcher) launchDevices(c *call.Call) gpubackend.Result {
	var a command.LaunchCooperativeKernelMultiDevice
	if !a.Decode(c.Words(), c.Command.Body) {
		return gpubackend.InvalidValue
	}
	b.Flush()
	list := make([]gpubackend.Launch, a.Count)
	entries, parameters := slices.Clone(a.Entries), a.Parameters // the guest may change them
	for i := range list {
		entry := cudaabi.LaunchParams(entries[i*cudaabi.LaunchParamsSize:])
		if result := b.takeEntry(c, entry, &list[i]); result != gpubackend.Success {
			return result
		}
		var ok bool
		list[i].Parameters, parameters, ok = cutParameters(parameters, entry.KernelParams())
		if !ok {
			return gpubackend.InvalidValue
		}
	}
	b.Count(handover.Launches, a.Count)
	return b.Driver.LaunchDevices(list, uint32(a.Flags))
}

// takeEntry looks up the handles of an entry, and copies its shape.
func (b *Launcher) takeEntry(
	c *call.Call, entry cudaabi.LaunchParams, l *gpubackend.Launch,
) (result gpubackend.Result) {
	if l.Function, result = b.Kernels.Find(c, entry.Function()); result != gpubackend.Success {
		return result
	}
	if l.Stream, result = b.Streams.Find(c, entry.HStream()); result != gpubackend.Success {
		return result
	}
	l.Grid = [3]uint32{entry.GridDimX(), entry.GridDimY(), entry.GridDimZ()}
	l.Block = [3]uint32{entry.BlockDimX(), entry.BlockDimY(), entry.BlockDimZ()}
	l.Shared = entry.SharedMemBytes()
	return gpubackend.Success
}

// cutParameters takes an entry's parameters off the front of all. Those of the next begin at a
// multiple of 8.
func cutParameters(all []byte, bytes uint64) (parameters, rest []byte, ok bool) {
	if bytes > cudaabi.MaxParameterBytes || bytes > uint64(len(all)) {
		return nil, nil, false
	}
	next := min((bytes+7)&^7, uint64(len(all)))
	return all[:bytes:bytes], all[next:], true
}
