// SPDX-License-Identifier: Apache-2.0

package code

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/roomtest"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

const text = ".version 7.0\n.target sm_80\n.address_size 64\n.global .align 4 .u32 total = 40;\n" +
	".visible .entry first(.param .u64 p) { ret; }\n" +
	".visible .entry second() .maxntid 64, 1, 1 { ret; }\x00"

// rig is the code of a device; unloaded are the modules that are gone.
type rig struct {
	*Code
	*roomtest.Ground
	unloaded []*Module
}

func newRig(t *testing.T, host *budget.Budget) *rig {
	t.Helper()
	r := &rig{Ground: roomtest.New(t, 64<<20)}
	r.Code = New(Options{
		Host: host, Handles: r.Handles, Contexts: r.Contexts, Memory: r.Memory,
		Unloaded: func(m *Module) { r.unloaded = append(r.unloaded, m) },
	})
	r.Ended = r.Drop
	return r
}

func TestModule(t *testing.T) {
	host := budget.New(64 << 20)
	r := newRig(t, host)
	h, _, _, result := r.ModuleLoadData([]byte(text), nil, nil, nil)
	resulttest.OK(t, result)
	f, result := r.ModuleGetFunction(h, "second")
	resulttest.OK(t, result)
	again, _ := r.ModuleGetFunction(h, "second")
	if again != f {
		t.Errorf("functions %d and %d of one name", f, again)
	}
	_, result = r.ModuleGetFunction(h, "third")
	resulttest.Want(t, result, gpubackend.NotFound)
	addr, bytes, result := r.ModuleGetGlobal(h, "total")
	resulttest.OK(t, result)
	if bytes != 4 || space.Bytes(addr, 4)[0] != 40 {
		t.Errorf("total: %d bytes that begin with %d", bytes, space.Bytes(addr, 4)[0])
	}
	found, result := r.Function(f)
	resulttest.OK(t, result)
	if found.Entry.Name != "second" || found.Module.Context != r.Contexts.Primary(0) {
		t.Errorf("found %s", found.Entry.Name)
	}
	resulttest.OK(t, r.ModuleUnload(h))
	if _, result = r.Function(f); result != gpubackend.InvalidHandle || len(r.unloaded) != 1 {
		t.Errorf("function afterwards: %d, told %d times", result, len(r.unloaded))
	}
	if host.Used() != 0 {
		t.Errorf("%d bytes are still counted", host.Used())
	}
}

// TestLibraryBecomesAModuleOfEachContext that uses it, and outlives them.
func TestLibraryBecomesAModuleOfEachContext(t *testing.T) {
	r := newRig(t, nil)
	l, _, _, result := r.LibraryLoadData([]byte(text), nil, nil, nil)
	resulttest.OK(t, result)
	first, result := r.LibraryGetModule(l)
	resulttest.OK(t, result)
	c, result := r.Contexts.CtxCreate(0, 0)
	resulttest.OK(t, result)
	resulttest.OK(t, r.Contexts.SetCurrent(c))
	second, result := r.LibraryGetModule(l)
	resulttest.OK(t, result)
	if first == second {
		t.Error("two contexts share a module")
	}
	resulttest.Want(t, r.ModuleUnload(second), gpubackend.NotPermitted)
	resulttest.OK(t, r.Contexts.CtxDestroy(c))
	if len(r.unloaded) != 1 {
		t.Errorf("%d modules ended with their context", len(r.unloaded))
	}
	resulttest.OK(t, r.LibraryUnload(l))
	if len(r.unloaded) != 2 {
		t.Errorf("%d modules ended with their library", len(r.unloaded))
	}
}

func TestImagesThatAreNone(t *testing.T) {
	host := budget.New(64 << 20)
	r := newRig(t, host)
	for _, c := range []struct {
		name, image string
		want        gpubackend.Result
	}{
		{"nothing", "", gpubackend.InvalidImage},
		{"rubbish", "\x01\x02\x03", gpubackend.InvalidImage},
		{"too new", ".version 99.0\n.target sm_80\n\x00", gpubackend.UnsupportedPTXVersion},
		{"broken",
			".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f() { frob; }\x00",
			gpubackend.InvalidPTX},
	} {
		log := make([]byte, 256)
		_, _, used, result := r.ModuleLoadData([]byte(c.image), nil, nil, log)
		if result != c.want || used == 0 {
			t.Errorf("%s: result %d, want %d, log %q", c.name, result, c.want, log[:used])
		}
	}
	if host.Used() != 0 {
		t.Errorf("%d bytes are still counted", host.Used())
	}
}

func TestLinkMakesAnImage(t *testing.T) {
	host := budget.New(64 << 20)
	r := newRig(t, host)
	l, result := r.LinkCreate(nil, 0, 256)
	resulttest.OK(t, result)
	_, result = r.LinkComplete(l)
	resulttest.Want(t, result, gpubackend.InvalidValue)
	resulttest.OK(t, r.LinkAddData(l, cudaabi.JITInputPTX, []byte(text), "", nil))
	n, result := r.LinkComplete(l)
	resulttest.OK(t, result)
	image := make([]byte, n)
	resulttest.OK(t, r.LinkImage(l, image))
	_, _, _, result = r.ModuleLoadData(image, nil, nil, nil)
	resulttest.OK(t, result)
	resulttest.OK(t, r.Contexts.DevicePrimaryCtxReset(0))
	resulttest.Want(t, r.LinkDestroy(l), gpubackend.InvalidHandle)
	if host.Used() != 0 {
		t.Errorf("%d bytes are still counted", host.Used())
	}
}
