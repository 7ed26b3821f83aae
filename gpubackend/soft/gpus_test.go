// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// newTwo opens two GPUs, and returns their primary contexts.
func newTwo(t *testing.T, o Options) (*Device, [2]gpubackend.Context) {
	t.Helper()
	o.GPUs = 2
	d := newDevice(t, o)
	windows.Add(1) // the second GPU has the addresses behind the first one's
	var list [2]gpubackend.Context
	for gpu := range list {
		c, result := d.DevicePrimaryCtxRetain(uint64(gpu))
		ok(t, result)
		list[gpu] = c
	}
	return d, list
}

// TestOwnMemory: a context allocates on its GPU, whose memory is its own to use up and to free.
func TestOwnMemory(t *testing.T) {
	d, x := newTwo(t, Options{Memory: 64 << 20})
	first := alloc(t, d, 48<<20)
	ok(t, d.SetCurrent(x[1]))
	second := alloc(t, d, 48<<20)
	base := d.options.Base
	if first-base >= testWindow || second-base-testWindow >= testWindow {
		t.Errorf("addresses %#x and %#x of windows from %#x", first, second, base)
	}
	_, result := d.MemAlloc(48 << 20)
	want(t, result, gpubackend.OutOfMemory)
	ok(t, d.MemFree(first)) // its GPU isn't the current one
	free, _, result := d.MemGetInfo()
	if ok(t, result); free > 16<<20 {
		t.Errorf("%d bytes are free of the second GPU", free)
	}
	ok(t, d.SetCurrent(x[0]))
	if free, total, _ := d.MemGetInfo(); free < 48<<20 || total != 64<<20 {
		t.Errorf("%d bytes of %d are free of the first GPU", free, total)
	}
}

// TestCopiesBetweenGPUs: addresses say on which GPU memory is.
func TestCopiesBetweenGPUs(t *testing.T) {
	d, x := newTwo(t, Options{})
	first := alloc(t, d, 1<<20)
	ok(t, d.SetCurrent(x[1]))
	second, s := alloc(t, d, 1<<20), newStream(t, d, 0)
	sent, got := bytes.Repeat([]byte{1, 2, 3, 4}, 1<<18), make([]byte, 1<<20)
	ok(t, d.CopyIn(first, sent, s))
	ok(t, d.MemcpyDtoDAsync(second, first, 1<<20, s))
	ok(t, wait(t, func() gpubackend.Result { return d.StreamQuery(s) }))
	ok(t, d.CopyOut(got, second))
	if !bytes.Equal(got, sent) {
		t.Error("the bytes aren't those that were sent")
	}
}

// TestContextsOfGPUs: what ends one GPU's contexts leaves the other's alone.
func TestContextsOfGPUs(t *testing.T) {
	d, x := newTwo(t, Options{})
	if x[0] == x[1] {
		t.Fatal("two GPUs have one primary context")
	}
	first := alloc(t, d, 1<<20)
	ok(t, d.SetCurrent(x[1]))
	second := alloc(t, d, 1<<20)
	want(t, d.CtxDestroy(x[1]), gpubackend.InvalidContext)
	ok(t, d.DevicePrimaryCtxReset(1))
	if d.Reaches(second, 1, true) || !d.Reaches(first, 1, true) {
		t.Error("a reset of the second GPU's context takes the wrong memory")
	}
	for _, call := range []func(uint64) gpubackend.Result{
		func(dev uint64) gpubackend.Result { _, r := d.DevicePrimaryCtxRetain(dev); return r },
		func(dev uint64) gpubackend.Result { _, r := d.CtxCreate(0, dev); return r },
		func(dev uint64) gpubackend.Result { _, r := d.CreateMemory(2<<20, dev, 0); return r },
		d.DevicePrimaryCtxRelease, d.DevicePrimaryCtxReset, d.DeviceGraphMemTrim,
	} {
		want(t, call(2), gpubackend.InvalidDevice)
		want(t, call(1<<63), gpubackend.InvalidDevice)
	}
}

// TestAccountsOfGPUs: memory counts for the GPU that it is of.
func TestAccountsOfGPUs(t *testing.T) {
	accounts := ledger.NewProcess()
	d, x := newTwo(t, Options{Accounts: accounts})
	ok(t, d.SetCurrent(x[1]))
	alloc(t, d, 32<<20)
	m, result := d.CreateMemory(2<<20, 0, 0)
	ok(t, result)
	of := [2]*ledger.Account{d.account(0), d.account(1)}
	if of[0].Held(ledger.Window) != 0 || of[1].Held(ledger.Window) < 32<<20 {
		t.Errorf("windows: %d, %d", of[0].Held(ledger.Window), of[1].Held(ledger.Window))
	}
	if of[0].Held(ledger.Mapped) != 2<<20 || of[1].Held(ledger.Mapped) != 0 {
		t.Errorf("mapped: %d, %d", of[0].Held(ledger.Mapped), of[1].Held(ledger.Mapped))
	}
	ok(t, d.ReleaseMemory(m))
	if of[0].Held(ledger.Mapped) != 0 {
		t.Errorf("%d bytes stay counted", of[0].Held(ledger.Mapped))
	}
}

// TestVisibleGPUs: a process has the GPUs that its environment names, in that order.
func TestVisibleGPUs(t *testing.T) {
	d := New(Options{GPUs: 3, Base: nextBase(), Window: testWindow})
	t.Cleanup(d.Close)
	windows.Add(2)
	s, result := d.Open([]string{"CUDA_VISIBLE_DEVICES=2,0"})
	ok(t, result)
	if len(s.Device) != 2 || s.WindowBytes != 2*testWindow {
		t.Fatalf("%d GPUs, %#x addresses", len(s.Device), s.WindowBytes)
	}
	for i, gpu := range []int{2, 0} {
		g := hostgpus.Described(&s.Device[i])
		if g.UUID != hostgpus.UUID(chip.NumberedUUID(gpu)) || int(g.Place.Bus) != 1+gpu {
			t.Errorf("GPU %d is %s at %v", i, g.UUID, g.Place)
		}
	}
	want(t, d.HostRegister(d.options.Base+testWindow+4096, 4096, true), gpubackend.InvalidValue)
	_, result = d.CtxCreate(0, 2)
	want(t, result, gpubackend.InvalidDevice)
}

// TestGreenContextOfSecondGPU: a green context is a part of its own GPU's primary one.
func TestGreenContextOfSecondGPU(t *testing.T) {
	d, _ := newTwo(t, Options{Multiprocessors: 16})
	r, result := d.DevResource(gpubackend.OfDevice, 1, cudaabi.DevResourceTypeSM)
	ok(t, result)
	desc, result := d.DescribeResources([]gpubackend.Resource{r})
	ok(t, result)
	_, c, result := d.GreenCtxCreate(desc, 1, cudaabi.GreenCtxDefaultStream)
	ok(t, result)
	ok(t, d.SetCurrent(c))
	if addr := alloc(t, d, 4096); addr-d.options.Base < testWindow {
		t.Errorf("%#x is the first GPU's", addr)
	}
}

// TestGraphMemoryOfGPUs: what a graph allocates is of its context's GPU alone.
func TestGraphMemoryOfGPUs(t *testing.T) {
	d, x := newTwo(t, Options{})
	ok(t, d.SetCurrent(x[1]))
	g, n := newGraph(t, d), allocNode(1<<20)
	_, _, _, result := d.GraphAddNode(g, nil, nil, n)
	want(t, result, gpubackend.InvalidValue) // of GPU 0
	cudaabi.MemPoolProps(n.Pool).Location().SetID(1)
	_, address, _, result := d.GraphAddNode(g, nil, nil, n)
	if ok(t, result); address-d.options.Base < testWindow {
		t.Errorf("%#x is the first GPU's", address)
	}
	for gpu, bytes := range []uint64{0, 1 << 20} {
		got, result := d.GraphMemory(uint64(gpu), cudaabi.GraphMemAttrReservedMemCurrent)
		if ok(t, result); got != bytes {
			t.Errorf("GPU %d: %d bytes for graphs, want %d", gpu, got, bytes)
		}
	}
}

// TestPeers: kernels of one GPU reach another's memory as long as their context may, and fault
// otherwise.
func TestPeers(t *testing.T) {
	d, x := newTwo(t, Options{})
	increment := getFunction(t, d, loadFile(t, d, "testdata/small.ptx"), "increment")
	ok(t, d.SetCurrent(x[1]))
	there := alloc(t, d, 4096)
	ok(t, d.MemsetD32Async(there, 5, 1, 0))
	synchronize(t, d)
	ok(t, d.SetCurrent(x[0]))
	want(t, d.CtxEnablePeerAccess(x[0], 0), gpubackend.PeerAccessUnsupported)
	want(t, d.CtxDisablePeerAccess(x[0]), gpubackend.InvalidContext)
	want(t, d.CtxEnablePeerAccess(99, 0), gpubackend.InvalidContext)
	same, result := d.CtxCreate(0, 0)
	ok(t, result)
	want(t, d.CtxEnablePeerAccess(same, 0), gpubackend.PeerAccessUnsupported)
	want(t, d.CtxDisablePeerAccess(x[1]), gpubackend.PeerAccessNotEnabled)
	want(t, d.MemsetD32Async(there, 9, 1, 0), gpubackend.InvalidValue)
	ok(t, d.CtxEnablePeerAccess(x[1], 0))
	want(t, d.CtxEnablePeerAccess(x[1], 0), gpubackend.PeerAccessAlreadyEnabled)
	ok(t, d.MemsetD32Async(there, 5, 1, 0))
	start(t, d, increment, 1, 0, params(there))
	synchronize(t, d)
	ok(t, d.SetCurrent(x[1]))
	later := alloc(t, d, 64<<20)
	ok(t, d.MemsetD32Async(later, 7, 1, 0))
	synchronize(t, d)
	ok(t, d.SetCurrent(x[0]))
	start(t, d, increment, 1, 0, params(later))
	synchronize(t, d)
	for addr, n := range map[uint64]byte{there: 6, later: 8} {
		if got := read(t, d, addr, 4); got[0] != n {
			t.Errorf("got %d, want %d", got[0], n)
		}
	}
	ok(t, d.CtxDisablePeerAccess(x[1]))
	start(t, d, increment, 1, 0, params(there))
	want(t, wait(t, func() gpubackend.Result { return d.StreamQuery(0) }),
		gpubackend.IllegalAddress)
	ok(t, d.SetCurrent(x[1]))
	if got := read(t, d, there, 4); got[0] != 6 {
		t.Error("the kernel without access has written")
	}
}

// TestPeersEnd: access ends with either context, and with the last one that had it.
func TestPeersEnd(t *testing.T) {
	d, x := newTwo(t, Options{})
	ok(t, d.SetCurrent(x[1]))
	there := alloc(t, d, 4096)
	reached := func() bool {
		_, _, _, ok := d.Space().View(0).Lookup(there)
		return ok
	}
	enable := func(c gpubackend.Context) {
		ok(t, d.SetCurrent(c))
		ok(t, d.CtxEnablePeerAccess(x[1], 0))
	}
	other, result := d.CtxCreate(0, 0)
	ok(t, result)
	enable(x[0])
	enable(other)
	ok(t, d.CtxDestroy(other))
	if !reached() {
		t.Error("another context's end took the access")
	}
	ok(t, d.DevicePrimaryCtxReset(0))
	if reached() {
		t.Error("the access outlives its context")
	}
	ok(t, d.SetCurrent(x[0]))
	enable(x[0])
	ok(t, d.DevicePrimaryCtxReset(1))
	ok(t, d.SetCurrent(x[1]))
	if there = alloc(t, d, 4096); reached() {
		t.Error("the access outlives the peer's context")
	}
}

// TestProtectByGPU: mapped memory is reached by the GPUs that were given it.
func TestProtectByGPU(t *testing.T) {
	d, _ := newTwo(t, Options{})
	const bytes = gpubackend.Granularity
	addr := d.options.Base - 4*bytes
	ok(t, d.Reserve(addr, bytes))
	m, result := d.CreateMemory(bytes, 0, 0)
	ok(t, result)
	ok(t, d.MapMemory(addr, bytes, m))
	state := func() (list [2][2]bool) {
		for gpu := range list {
			_, _, writable, ok := d.Space().View(gpu).Lookup(addr)
			list[gpu] = [2]bool{ok, writable}
		}
		return list
	}
	for _, step := range []struct {
		gpu, access uint64
		want        [2][2]bool
	}{
		{1, gpubackend.AccessRead, [2][2]bool{{}, {true, false}}},
		{0, gpubackend.AccessReadWrite, [2][2]bool{{true, true}, {true, false}}},
		{1, gpubackend.AccessNone, [2][2]bool{{true, true}, {}}},
		{0, gpubackend.AccessNone, [2][2]bool{}},
	} {
		ok(t, d.Protect(addr, bytes, step.gpu, step.access))
		if got := state(); got != step.want {
			t.Errorf("GPU %d, access %d: %v", step.gpu, step.access, got)
		}
	}
	want(t, d.Protect(addr, bytes, 2, gpubackend.AccessRead), gpubackend.InvalidDevice)
	ok(t, d.UnmapMemory(addr, bytes))
	ok(t, d.Unreserve(addr, bytes))
	ok(t, d.ReleaseMemory(m))
}

// TestPoolAccess: a pool's access and a context's end for themselves.
func TestPoolAccess(t *testing.T) {
	d, x := newTwo(t, Options{})
	ok(t, d.SetCurrent(x[1]))
	there := alloc(t, d, 4096)
	ok(t, d.SetCurrent(x[0]))
	reached := func(want bool) {
		t.Helper()
		if _, _, _, ok := d.Space().View(0).Lookup(there); ok != want {
			t.Errorf("reached: %v", ok)
		}
	}
	ok(t, d.PoolAccess(0, 1, gpubackend.AccessReadWrite))
	reached(true)
	ok(t, d.CtxEnablePeerAccess(x[1], 0))
	ok(t, d.PoolAccess(0, 1, gpubackend.AccessNone))
	reached(true)
	ok(t, d.CtxDisablePeerAccess(x[1]))
	reached(false)
	ok(t, d.PoolAccess(0, 1, gpubackend.AccessNone))
	ok(t, d.PoolAccess(0, 1, gpubackend.AccessReadWrite))
	reached(true)
	for _, pair := range [][2]uint64{{0, 0}, {2, 0}, {0, 2}} {
		want(t, d.PoolAccess(pair[0], pair[1], 3), gpubackend.InvalidDevice)
	}
}

// TestGPUsApart: where GPUs don't reach each other, every way to have it so is refused, and copies
// go on.
func TestGPUsApart(t *testing.T) {
	d, x := newTwo(t, Options{Apart: true})
	for i, p := range d.inventory().Pair {
		if p != (wire.InventoryPair{}) {
			t.Errorf("pair %d: %+v, want no access and no links", i, p)
		}
	}
	if n := d.inventory().Device[0].Nvlinks; n != 0 {
		t.Errorf("%d links, want none", n)
	}
	first := alloc(t, d, 4096)
	ok(t, d.MemsetD32Async(first, 7, 1, 0))
	synchronize(t, d)
	ok(t, d.SetCurrent(x[1]))
	second := alloc(t, d, 4096)
	want(t, d.CtxEnablePeerAccess(x[0], 0), gpubackend.PeerAccessUnsupported)
	want(t, d.PoolAccess(0, 1, gpubackend.AccessReadWrite), gpubackend.PeerAccessUnsupported)

	const bytes = gpubackend.Granularity
	addr := d.options.Base - 4*bytes
	ok(t, d.Reserve(addr, bytes))
	m, result := d.CreateMemory(bytes, 1, 0)
	ok(t, result)
	ok(t, d.MapMemory(addr, bytes, m))
	ok(t, d.Protect(addr, bytes, 1, gpubackend.AccessReadWrite))
	want(t, d.Protect(addr, bytes, 0, gpubackend.AccessRead), gpubackend.InvalidDevice)
	ok(t, d.Protect(addr, bytes, 0, gpubackend.AccessNone))
	for _, there := range []uint64{second, addr} {
		if _, _, _, reached := d.Space().View(0).Lookup(there); reached {
			t.Errorf("GPU 0 reaches %#x", there)
		}
	}
	ok(t, d.UnmapMemory(addr, bytes))
	ok(t, d.Unreserve(addr, bytes))
	ok(t, d.ReleaseMemory(m))
	ok(t, d.MemcpyDtoDAsync(second, first, 4, 0))
	synchronize(t, d)
	if got := read(t, d, second, 4); got[0] != 7 {
		t.Errorf("got %d, want 7", got[0])
	}
}
