// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// LaunchDevices queues a kernel on several devices. offsets are where each launch's parameters lie
// among its packed ones, as FuncOffsets says.
func (d Launches) LaunchDevices(
	ls []gpubackend.Launch, offsets [][]uint32, flags uint32,
) gpubackend.Result {
	const size = cudaabi.LaunchParamsSize
	bytes := len(ls) * size
	for i := range ls {
		bytes += 8*max(1, len(offsets[i])) + Padded(len(ls[i].Parameters))
	}
	memory := cmem.Allocate(bytes)
	defer memory.Free() // the driver has copied all of it
	rest := memory.Bytes()[len(ls)*size:]
	for i := range ls {
		l := &ls[i]
		var pointers uint64
		pointers, rest = pointTo(l.Parameters, offsets[i], rest)
		describe(cudaabi.LaunchParams(memory.Bytes()[i*size:(i+1)*size]), l, pointers)
		d.Touch(l.Stream)
	}
	return d.call(symLaunchDevices, memory.Address(), uint64(len(ls)), uint64(flags))
}

// pointTo puts pointers to parameters, and behind these a copy of them, at the beginning of C
// memory. It returns the address of the pointers, of which there is room for one at least, as the
// driver refuses NULL, and what is left of the memory.
func pointTo(parameters []byte, offsets []uint32, memory []byte) (pointers uint64, rest []byte) {
	at := memory[8*max(1, len(offsets)):]
	copy(at, parameters)
	PutPointers(memory, cmem.AddressOf(at), offsets)
	return cmem.AddressOf(memory), at[Padded(len(parameters)):]
}

// describe makes an entry of the list.
func describe(entry cudaabi.LaunchParams, l *gpubackend.Launch, pointers uint64) {
	clear(entry)
	entry.SetFunction(uint64(l.Function))
	entry.SetGridDimX(l.Grid[0])
	entry.SetGridDimY(l.Grid[1])
	entry.SetGridDimZ(l.Grid[2])
	entry.SetBlockDimX(l.Block[0])
	entry.SetBlockDimY(l.Block[1])
	entry.SetBlockDimZ(l.Block[2])
	entry.SetSharedMemBytes(l.Shared)
	entry.SetHStream(uint64(l.Stream))
	entry.SetKernelParams(pointers)
}
