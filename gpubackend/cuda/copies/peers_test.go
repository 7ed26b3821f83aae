// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
)

// TestPeerCopies: for copies from GPU to GPU the driver is told the context of each side.
func TestPeerCopies(t *testing.T) {
	x, f := newCopies()
	const other, primary = device + 1<<20, contextstest.Primary
	if r := x.Copy(other, device, 64, 3); r != gpubackend.InvalidValue {
		t.Errorf("to a GPU without a context: %d", r)
	}
	second, _ := x.contexts.DevicePrimaryCtxRetain(1)
	box := func(slice uint64) gpubackend.Result {
		return x.CopyBox(&gpubackend.Box{
			Dst: other, DstPitch: 64, DstSlice: slice, Src: device, SrcPitch: 64, SrcSlice: slice,
			Width: 32, Height: 2, Depth: 3,
		}, 3)
	}
	for _, test := range []struct {
		name string
		r    gpubackend.Result
		want gpubackend.Result
		log  []string
	}{
		{"any", x.Copy(other, device, 64, 3), 0, []string{"64 to 111 from 110"}},
		{"typed", x.MemcpyDtoDAsync(device, other, 65, 3), 0, []string{"65 to 110 from 111"}},
		{"on one", x.MemcpyDtoDAsync(other, other+512, 66, 3), 0, []string{"within 66"}},
		{"of contexts", x.MemcpyPeerAsync(other, second, device, primary, 67, 3), 0,
			[]string{"67 to 111 from 110"}},
		{"of host memory", x.MemcpyPeerAsync(device, primary, host, second, 68, 3), 0,
			[]string{"copy 68 in 3"}},
		{"of nobody's", x.MemcpyPeerAsync(other, second, 8, primary, 69, 3),
			gpubackend.InvalidValue, nil},
		{"of no context", x.MemcpyPeerAsync(other, 5, device, primary, 70, 3),
			gpubackend.InvalidContext, nil},
		{"beyond the end", x.MemcpyPeerAsync(other+1<<20-4, second, device, primary, 5, 3),
			gpubackend.InvalidValue, nil},
		{"nothing", x.MemcpyPeerAsync(8, second, 8, primary, 0, 3), 0, nil},
		{"planes", box(128), 0, []string{"3D of 3 planes to 111 from 110"}},
		{"planes apart", box(160), 0, []string{
			"3D of 1 planes to 111 from 110", "3D of 1 planes to 111 from 110",
			"3D of 1 planes to 111 from 110"}},
	} {
		n := len(test.log)
		if test.r != test.want || len(f.log) < n || !slices.Equal(f.log[:n], test.log) {
			t.Fatalf("%s: result %d, %q", test.name, test.r, f.log)
		}
		f.log = f.log[n:]
	}
}
