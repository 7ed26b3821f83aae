// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/fixed"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/pools"
)

// TestFixed: each object that keeps the program where it is counts from when it is made until it is
// gone, and other objects never count.
func TestFixed(t *testing.T) {
	r, _ := exporter(t, oneBase)
	r.want(t, 0, gpubackend.OpMemAlloc, 4096)
	r.want(t, 0, gpubackend.OpStreamCreateWithPriority, 1, 0)
	r.want(t, 0, gpubackend.OpEventCreate, 2)
	pool := r.want(t, 0, gpubackend.OpPoolDefault, 0)
	r.want(t, 0, gpubackend.OpMemAllocAsync, 4096, pool, 0)
	r.want(t, 0, gpubackend.OpMemAddressReserve, reservation(0), piece)
	graph := r.want(t, 0, gpubackend.OpGraphCreate, 0)
	r.want(t, 0, gpubackend.OpGraphInstantiateWithFlags, graph, 0)
	r.want(t, 0, gpubackend.OpGraphConditionalHandle, graph, 0, 0)
	told := func() fixed.Counts {
		t.Helper()
		r.tellFixed()
		return r.state.Fixed()
	}
	if c := told(); c != (fixed.Counts{}) {
		t.Fatalf("%v is in the way of a program that has nothing of the kind", c.Map())
	}

	array := r.newArray(t)
	m := r.want(t, 0, gpubackend.OpMemCreate, piece, 0, 0)
	desc := make([]byte, cudaabi.ResourceDescSize)
	cudaabi.ResourceDesc(desc).SetArray(array)
	ref, n := r.given(desc)
	r.want(t, 0, gpubackend.OpSurfObjectCreate, ref, n)
	r.want(t, 0, gpubackend.OpMemMap, reservation(0), piece, m)
	r.want(t, 0, gpubackend.OpMemExportToShareableHandle, m)
	r.want(t, 0, gpubackend.OpIpcGetMemHandle, r.want(t, 0, gpubackend.OpMemAlloc, piece))
	r.want(t, 0, gpubackend.OpIpcGetEventHandle, r.want(t, 0, gpubackend.OpEventCreate, 6))
	shared := r.want(t, 0, gpubackend.OpMemPoolCreate, 0, 0, pools.HandlePosixFile)
	r.want(t, 0, gpubackend.OpMemPoolExportToShareableHandle, shared)
	exported(t, r, shared, 4096)
	with := fixed.Counts{}
	if c := told(); c != with {
		t.Fatalf("memory, an array, a surface, and what is shared: %v", c.Map())
	}
	none := uint64(wire.BufferNone) << 56
	var made uint64
	for name, x := range map[string]struct {
		kind      fixed.Kind
		make, end func()
	}{
		"linker": {
			fixed.Linkers,
			func() { made = r.want(t, 0, gpubackend.OpLinkCreate, none, 0, 0, 0) },
			func() { r.want(t, 0, gpubackend.OpLinkDestroy, made) },
		},
		"references": {
			fixed.References,
			func() { made, _, _ = r.loadReferences(t) },
			func() { r.want(t, 0, gpubackend.OpModuleUnload, made) },
		},
	} {
		x.make()
		c := told()
		if n := c[x.kind] - with[x.kind]; n == 0 || n > 2 {
			t.Errorf("%s: %v", name, c.Map())
		}
		c[x.kind] = with[x.kind]
		x.end()
		if c != with || told() != with {
			t.Errorf("%s: beside it %v, and %v without it", name, c.Map(), told().Map())
		}
	}
	r.want(t, 0, gpubackend.OpMemUnmap, reservation(0), piece)
	r.want(t, 0, gpubackend.OpMemAddressFree, reservation(0), piece) // other tests take it
	r.textures.Forget(r.context)
	if c := told(); c != with {
		t.Errorf("%v, and the context of a surface has ended", c.Map())
	}
}
