// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

const (
	retain  = gpubackend.OpDevicePrimaryCtxRetain
	release = gpubackend.OpDevicePrimaryCtxRelease
	reset   = gpubackend.OpDevicePrimaryCtxReset
)

// newUsed is a program with two GPUs, of which the second one's context has settings and objects.
// Both reach each other.
func newUsed(t testing.TB) (p *pair, stream uint64) {
	t.Helper()
	p = newPair(t)
	for gpu := range 2 {
		p.rig.context = p.context[gpu]
		p.does(t, gpubackend.OpCtxEnablePeerAccess, p.context[1-gpu], 0)
	}
	p.does(t, gpubackend.OpCtxSetLimit, cudaabi.LimitStackSize, 8192)
	return p, p.does(t, gpubackend.OpStreamCreateWithPriority, 0, 0)
}

// savedPairs are what programs with two GPUs leave, of which one has released a context.
func savedPairs(t testing.TB) (list []sections) {
	t.Helper()
	for _, releases := range []bool{false, true} {
		p, _ := newUsed(t)
		p.does(t, gpubackend.OpPoolAccess, 1, 0, gpubackend.AccessReadWrite)
		if releases {
			p.does(t, release, 1)
		}
		list = append(list, p.rig.saved(t))
		p.end()
	}
	return list
}

// TestContextEndsAndIsRestored: a primary context that has ended, or has begun anew, is so in the
// next worker, too, with what it has by then and no more.
func TestContextEndsAndIsRestored(t *testing.T) {
	for name, x := range map[string]struct {
		does  []gpubackend.Op
		ended bool
	}{
		"reset":               {[]gpubackend.Op{reset}, false},
		"reset and retained":  {[]gpubackend.Op{reset, retain}, false},
		"released":            {[]gpubackend.Op{release}, true},
		"released, retained":  {[]gpubackend.Op{release, retain}, false},
		"twice":               {[]gpubackend.Op{release, retain, release}, true},
		"released, then used": {[]gpubackend.Op{release, retain, gpubackend.OpMemAlloc}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, stream := newUsed(t)
			words := map[gpubackend.Op]uint64{gpubackend.OpMemAlloc: 4096}
			for _, op := range x.does {
				word, ok := words[op]
				if !ok {
					word = 1
				}
				p.rig.context = p.context[1]
				p.memory[1] = p.does(t, op, word)
			}
			p = p.again(t).again(t)
			defer p.end()
			const limit = gpubackend.OpCtxGetLimit
			r := p.on(t, 1, limit, cudaabi.LimitStackSize)
			if (r != gpubackend.Success) != x.ended {
				t.Errorf("the context's limit: result %d", r)
			}
			p.rig.context = 0
			if h := p.does(t, retain, 1); h != p.context[1] {
				t.Fatalf("the context is %#x, and was %#x", h, p.context[1])
			}
			p.rig.context = p.context[1]
			if n := p.does(t, limit, cudaabi.LimitStackSize); n == 8192 {
				t.Error("the limit is still what was set before the end")
			}
			if r := p.on(t, 1, gpubackend.OpStreamQuery, stream); r != gpubackend.InvalidHandle {
				t.Errorf("a stream of before: result %d", r)
			}
			for gpu := range 2 {
				r := p.on(t, gpu, gpubackend.OpCtxDisablePeerAccess, p.context[1-gpu])
				if r != gpubackend.PeerAccessNotEnabled {
					t.Errorf("GPU %d has access: result %d", gpu, r)
				}
			}
			p.rig.context = p.context[1]
			if n := len(x.does); x.does[n-1] == gpubackend.OpMemAlloc {
				p.does(t, gpubackend.OpMemFree, p.memory[1])
			}
			p.does(t, gpubackend.OpMemFree, p.does(t, gpubackend.OpMemAlloc, 4096))
		})
	}
}

// TestLibrariesOutliveContexts: a library stays when a context ends, without what the program had
// of it there. A release after a reset is refused for good.
func TestLibrariesOutliveContexts(t *testing.T) {
	p, _ := newUsed(t)
	const none = wire.BufferNone << 56
	ptx := []byte(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() { ret; }\n")
	copy(p.mem[wire.Bulk:], ptx)
	p.rig.context = p.context[1]
	library := p.does(t, gpubackend.OpLibraryLoadData, bulk, uint64(len(ptx)), none, 0, none, 0,
		none, 0)
	copy(p.mem[wire.Bulk:], "f")
	kernel := p.does(t, gpubackend.OpLibraryGetKernel, library, bulk, 1)
	f := p.does(t, gpubackend.OpKernelGetFunction, kernel)
	m := p.does(t, gpubackend.OpLibraryGetModule, library)
	refused := func(want string) { // by the program in its worker of now
		t.Helper()
		err := p.saving.Unsavable()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused("")
	p.does(t, reset, 1)
	if p.objects.Has(f) || p.objects.Has(m) || !p.objects.Has(kernel) {
		t.Error("the function or module is left, or the kernel isn't")
	}
	refused("")
	p.does(t, retain, 1)
	f = p.does(t, gpubackend.OpKernelGetFunction, kernel)
	m = p.does(t, gpubackend.OpLibraryGetModule, library)
	q := p.again(t)
	defer q.end()
	if !q.objects.Has(f) || !q.objects.Has(m) || !q.objects.Has(kernel) {
		t.Error("the function, module or kernel is missing")
	}
	for _, op := range []gpubackend.Op{reset, retain, release} {
		q.does(t, op, 1)
	}
	p = q
	refused("has released a context that it had reset")
}
