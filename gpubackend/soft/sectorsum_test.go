// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// TestSectorSumKernel executes the kernel that sums up sectors: one of zeros, one of ones, which is
// the extreme of its arithmetic, and a random one. Package sectorsum computes what is expected.
func TestSectorSumKernel(t *testing.T) {
	d := newDevice(t, Options{Memory: 64 << 20})
	must := func(what string, r gpubackend.Result) {
		t.Helper()
		if r != gpubackend.Success {
			t.Fatalf("%s: result %d", what, r)
		}
	}
	ctx, r := d.DevicePrimaryCtxRetain(0)
	must("retain", r)
	must("set current", d.SetCurrent(ctx))
	module, _, _, r := d.ModuleLoadData(append([]byte(sectorsum.Kernel), 0), nil, nil, nil)
	must("load", r)
	f, r := d.ModuleGetFunction(module, sectorsum.KernelName)
	must("function", r)
	sectors := [][]byte{make([]byte, sectorsum.Bytes), make([]byte, sectorsum.Bytes),
		make([]byte, sectorsum.Bytes)}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range sectors[1] { // sectors[0] is 0
		sectors[1][i], sectors[2][i] = 0xff, byte(random.Uint32())
	}
	var in []byte
	for _, s := range sectors {
		in = append(in, s...)
	}
	memory, r := d.MemAlloc(uint64(len(in)))
	must("allocate", r)
	sums, r := d.MemAlloc(4096)
	must("allocate", r)
	must("copy in", d.CopyIn(memory, in, 0))
	for _, key := range []uint64{0, 1, ^uint64(0), random.Uint64()} {
		parameters := binary.LittleEndian.AppendUint64(nil, memory)
		parameters = binary.LittleEndian.AppendUint64(parameters, key)
		parameters = binary.LittleEndian.AppendUint64(parameters, sums)
		must("launch", d.Launch(&gpubackend.Launch{
			Function: f, Grid: [3]uint32{uint32(len(sectors)), 1, 1},
			Block: [3]uint32{sectorsum.Lanes, 1, 1}, Parameters: parameters,
		}))
		for r = d.ContextQuery(); r == gpubackend.NotReady; {
			r = d.ContextQuery()
		}
		must("run", r)
		out := make([]byte, 8*len(sectors))
		must("copy out", d.CopyOut(out, sums))
		for i := range sectors {
			got := binary.LittleEndian.Uint64(out[8*i:])
			if want := sectorsum.Of(key, sectors[i]); got != want {
				t.Errorf("key %#x, sector %d: the kernel has %#x, want %#x", key, i, got, want)
			}
		}
	}
}
