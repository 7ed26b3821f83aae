// SPDX-License-Identifier: Apache-2.0

// Package compute runs a small computation on a GPU and checks the result: memory, a copy to it, a
// kernel from PTX, a copy back. It is what paracuda doctor tries.
//
// The driver is the caller's, which has locked its thread. A GPU that never ends is left to the
// caller, which runs this in a process that it can kill.
package compute

import (
	"bytes"
	_ "embed" // for the kernel
	"encoding/binary"
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
)

//go:embed square.ptx
var kernel []byte

const (
	numbers = 1000
	threads = 128 // of a block
)

// Run opens a device, has it square numbers, and returns its name.
func Run(d gpubackend.Driver) (gpu string, err error) {
	s, r := d.Open(nil)
	if r != gpubackend.Success {
		return "", must("open the GPU", r)
	}
	if len(s.Device) == 0 {
		return "", must("open the GPU", gpubackend.NoDevice)
	}
	described := hostgpus.Described(&s.Device[0])
	gpu = described.String()
	context, r := d.DevicePrimaryCtxRetain(0)
	if r == gpubackend.Success {
		r = d.SetCurrent(context)
	}
	if r != gpubackend.Success {
		return "", must("make a context", r)
	}
	memory, r := d.MemAlloc(4 * numbers)
	if r != gpubackend.Success {
		return "", must("allocate memory", r)
	}
	return gpu, square(d, memory)
}

// square has the GPU square the numbers in memory, and checks the result.
func square(d gpubackend.Driver, memory uint64) error {
	var before, want []byte
	for i := range uint32(numbers) {
		before = binary.LittleEndian.AppendUint32(before, i)
		want = binary.LittleEndian.AppendUint32(want, i*i)
	}
	if err := must("copy to the GPU",
		d.CopyIn(memory, before, gpubackend.DefaultStream)); err != nil {
		return err
	}
	if err := launch(d, memory); err != nil {
		return err
	}
	got := make([]byte, len(want))
	if err := must("copy from the GPU", d.CopyOut(got, memory)); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the GPU computes wrong numbers")
	}
	return nil
}

// launch runs the kernel to its end.
func launch(d gpubackend.Driver, memory uint64) error {
	module, _, _, r := d.ModuleLoadData(kernel, nil, nil, nil)
	if r != gpubackend.Success {
		return must("load a kernel", r)
	}
	function, r := d.ModuleGetFunction(module, "square")
	if r != gpubackend.Success {
		return must("find a kernel", r)
	}
	parameters := binary.LittleEndian.AppendUint64(nil, memory)
	parameters = binary.LittleEndian.AppendUint32(parameters, numbers)
	if r = d.Launch(&gpubackend.Launch{
		Function: function, Grid: [3]uint32{(numbers + threads - 1) / threads, 1, 1},
		Block: [3]uint32{threads, 1, 1}, Parameters: parameters,
	}); r != gpubackend.Success {
		return must("launch a kernel", r)
	}
	for r = d.ContextQuery(); r == gpubackend.NotReady; r = d.ContextQuery() {
		time.Sleep(time.Millisecond)
	}
	return must("run a kernel", r)
}

func must(what string, r gpubackend.Result) error {
	if err := r.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
