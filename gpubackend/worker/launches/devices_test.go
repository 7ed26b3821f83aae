// SPDX-License-Identifier: Apache-2.0

package launches

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// entry is an entry of a launch on several devices.
func entry(function, stream, bytes uint64) []byte {
	e := cudaabi.LaunchParams(make([]byte, cudaabi.LaunchParamsSize))
	e.SetFunction(function)
	e.SetHStream(stream)
	e.SetGridDimX(1)
	e.SetGridDimY(2)
	e.SetGridDimZ(3)
	e.SetBlockDimX(4)
	e.SetBlockDimY(5)
	e.SetBlockDimZ(6)
	e.SetSharedMemBytes(7)
	e.SetKernelParams(bytes)
	return e
}

// together sends a launch on several devices.
func (r *rig) together(a command.LaunchCooperativeKernelMultiDevice) gpubackend.Result {
	const words = command.LaunchCooperativeKernelMultiDeviceWords
	r.command = arena.Command{N: words, Body: a.Append(nil)}
	for i := range r.command.N {
		r.command.Words[i] = binary.LittleEndian.Uint64(r.command.Body[8*i:])
	}
	r.call.Start(&r.command)
	return r.Handlers()[gpubackend.OpLaunchCooperativeKernelMultiDevice].Run(&r.call)
}

func TestLaunchOnSeveralDevices(t *testing.T) {
	const stream = 109
	three := []byte{1, 2, 3, 0, 0, 0, 0, 0, 4}
	for name, test := range map[string]struct {
		entries    [][]byte
		count      uint64 // if not that of the entries
		flags      uint64
		parameters []byte
		want       gpubackend.Result
		got        [][]byte // parameters
	}{
		"two": {entries: [][]byte{entry(105, stream, 3), entry(106, stream+1, 1)}, flags: 3,
			parameters: three, got: [][]byte{{1, 2, 3}, {4}}},
		"the last is not filled up": {entries: [][]byte{entry(105, stream, 3)},
			parameters: three[:3], got: [][]byte{{1, 2, 3}}},
		"no parameters": {entries: [][]byte{entry(105, stream, 0)}, got: [][]byte{{}}},
		"none":          {want: gpubackend.InvalidValue},
		"fewer than said": {entries: [][]byte{entry(105, stream, 0)}, count: 2,
			want: gpubackend.InvalidValue},
		"unknown flags": {entries: [][]byte{entry(105, stream, 0)}, flags: 4,
			want: gpubackend.InvalidValue},
		"unknown function": {entries: [][]byte{entry(105, stream, 0), entry(5, stream, 0)},
			want: gpubackend.InvalidHandle},
		"unknown stream": {entries: [][]byte{entry(105, 9, 0)}, want: gpubackend.InvalidHandle},
		"parameters beyond the end": {
			entries:    [][]byte{entry(105, stream, 3), entry(105, stream, 2)},
			parameters: three, want: gpubackend.InvalidValue},
		"more than a function has": {
			entries:    [][]byte{entry(105, stream, cudaabi.MaxParameterBytes+1)},
			parameters: make([]byte, 2*cudaabi.MaxParameterBytes), want: gpubackend.InvalidValue},
		"so many that the sum wraps": {entries: [][]byte{entry(105, stream, 1<<64-1)},
			parameters: three, want: gpubackend.InvalidValue},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			if test.count == 0 {
				test.count = uint64(len(test.entries))
			}
			a := command.LaunchCooperativeKernelMultiDevice{
				Flags: test.flags, Count: test.count, Entries: bytes.Join(test.entries, nil),
				ParameterBytes: uint64(len(test.parameters)), Parameters: test.parameters,
			}
			if result := r.together(a); result != test.want {
				t.Fatalf("result %v, want %v", result, test.want)
			}
			if len(r.driver.together) != len(test.got) || r.driver.flags != uint32(test.flags) &&
				test.want == gpubackend.Success {
				t.Fatalf("%d launches, flags %d", len(r.driver.together), r.driver.flags)
			}
			if n := r.counts[handover.Launches]; n != uint64(len(test.got)) {
				t.Errorf("%d launches are counted", n)
			}
			for i, l := range r.driver.together {
				if !slices.Equal(l.Parameters, test.got[i]) ||
					l.Function != gpubackend.Function(5+i) ||
					l.Stream != gpubackend.Stream(9+i) || l.Shared != 7 ||
					l.Grid != [3]uint32{1, 2, 3} || l.Block != [3]uint32{4, 5, 6} {
					t.Errorf("launch %d: %+v", i, l)
				}
			}
		})
	}
}
