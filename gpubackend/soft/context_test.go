// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// createContext makes a context and makes it the current one.
func createContext(t testing.TB, d *Device) gpubackend.Context {
	t.Helper()
	c, result := d.CtxCreate(0, 0)
	ok(t, result)
	ok(t, d.SetCurrent(c))
	return c
}

func TestContexts(t *testing.T) {
	d := newDevice(t, Options{})
	_, result := d.CtxCreate(0, 1)
	want(t, result, gpubackend.InvalidDevice)
	_, result = d.CtxCreate(1<<20, 0)
	want(t, result, gpubackend.InvalidValue)
	c := createContext(t, d)
	s := newStream(t, d, 0)
	a := alloc(t, d, 1<<20)
	ok(t, d.SetCurrent(0))
	_, result = d.MemAlloc(1)
	want(t, result, gpubackend.InvalidContext)
	want(t, d.ContextQuery(), gpubackend.InvalidContext)
	want(t, d.SetCurrent(12345), gpubackend.InvalidContext)
	want(t, d.CtxDestroy(d.Primary(0).Handle()), gpubackend.InvalidContext)
	ok(t, d.CtxDestroy(c))
	want(t, d.CtxDestroy(c), gpubackend.InvalidContext)
	want(t, d.SetCurrent(c), gpubackend.InvalidContext)
	primary(t, d)
	want(t, d.StreamQuery(s), gpubackend.InvalidHandle)
	want(t, d.MemFree(a), gpubackend.InvalidValue)
	if free, total, _ := d.MemGetInfo(); free != total {
		t.Errorf("%d of %d bytes free", free, total)
	}
}

func TestPrimaryContext(t *testing.T) {
	d := newDevice(t, Options{})
	c := primary(t, d) // retained twice
	e := newEvent(t, d)
	alloc(t, d, 1<<20)
	ok(t, d.CtxSetLimit(cudaabi.LimitStackSize, 4096))
	ok(t, d.DevicePrimaryCtxReset(0))
	want(t, d.EventQuery(e), gpubackend.InvalidHandle)
	if v, result := d.CtxGetLimit(cudaabi.LimitStackSize); v != 1024 ||
		result != gpubackend.Success {
		t.Errorf("stack limit %d, result %d", v, result)
	}
	ok(t, d.DevicePrimaryCtxRelease(0))
	alloc(t, d, 1)
	ok(t, d.DevicePrimaryCtxRelease(0))
	_, result := d.MemAlloc(1)
	want(t, result, gpubackend.ContextIsDestroyed)
	ok(t, d.SetCurrent(c))
	want(t, d.DevicePrimaryCtxRelease(0), gpubackend.InvalidContext)
	want(t, d.DevicePrimaryCtxRelease(1), gpubackend.InvalidDevice)
	if again := primary(t, d); again != c {
		t.Errorf("handle %d, was %d", again, c)
	}
	alloc(t, d, 1)
}

func TestContextQuery(t *testing.T) {
	d := newDevice(t, Options{})
	open := gate(t, d, newStream(t, d, 1))
	want(t, d.ContextQuery(), gpubackend.NotReady)
	c := createContext(t, d)
	ok(t, d.ContextQuery()) // another context's work is not this one's
	ok(t, d.CtxDestroy(c))
	primary(t, d)
	open()
	synchronize(t, d)
}

func TestCtxDestroyCompletesItsWork(t *testing.T) {
	d := newDevice(t, Options{})
	target := alloc(t, d, 64<<20)
	c := createContext(t, d)
	ok(t, d.MemsetD8Async(target, 5, 64<<20, 0))
	ok(t, d.CtxDestroy(c))
	primary(t, d)
	if got := read(t, d, target+64<<20-1, 1); got[0] != 5 {
		t.Errorf("last byte %d", got[0])
	}
}

func TestCtxDestroyGivesUpHostFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, Options{})
		c := createContext(t, d)
		called := 0
		release, result := d.HostFunc(0, 1, func(uint64) { called++ })
		ok(t, result)
		_, result = d.HostFunc(0, 2, func(uint64) { called++ })
		ok(t, result)
		synctest.Wait()
		ok(t, d.CtxDestroy(c))
		release()
		if called != 1 {
			t.Errorf("%d functions called", called)
		}
	})
}

func TestStickyErrors(t *testing.T) {
	d := newDevice(t, Options{})
	a, e, s := alloc(t, d, 16), newEvent(t, d), newStream(t, d, 0)
	other := createContext(t, d)
	first := primary(t, d)
	current, _ := d.Current()
	current.Fail(gpubackend.MisalignedAddress)
	current.Fail(gpubackend.IllegalAddress) // the first one counts
	release, result := d.HostFunc(0, 1, func(uint64) { t.Error("called") })
	if release != nil {
		t.Error("a function to release")
	}
	for _, c := range []struct {
		name   string
		result gpubackend.Result
	}{
		{"HostFunc", result}, {"MemFree", d.MemFree(a)}, {"ContextQuery", d.ContextQuery()},
		{"StreamQuery", d.StreamQuery(s)},
		{"EventQuery", d.EventQuery(e)}, {"EventDestroy", d.EventDestroy(e)},
		{"StreamDestroy", d.StreamDestroy(s)},
		{"MemsetD8Async", d.MemsetD8Async(a, 0, 1, 0)}, {"CopyIn", d.CopyIn(a, []byte{1}, 0)},
		{"CopyOut", d.CopyOut([]byte{1}, a)}, {"CtxSetLimit", d.CtxSetLimit(0, 1)},
		{"ModuleUnload", d.ModuleUnload(1)},
		{"CtxResetPersistingL2Cache", d.CtxResetPersistingL2Cache()},
		{"Launch", d.Launch(&gpubackend.Launch{})},
	} {
		if c.result != gpubackend.MisalignedAddress {
			t.Errorf("%s: %d", c.name, c.result)
		}
	}
	ok(t, d.SetCurrent(other)) // this context lives
	ok(t, d.MemsetD8Async(a, 0, 1, 0))
	ok(t, d.SetCurrent(first))
	ok(t, d.DevicePrimaryCtxReset(0))
	ok(t, d.ContextQuery())
	alloc(t, d, 16)
}

func TestLimits(t *testing.T) {
	d := newDevice(t, Options{})
	for _, c := range []struct {
		name              string
		limit, value, got uint64
		want              gpubackend.Result
	}{
		{"stack", 0, 2000, 2000, gpubackend.Success},
		{"stack rounded", 0, 2001, 2016, gpubackend.Success},
		{"stack cut", 0, 1 << 30, 512 << 10, gpubackend.Success},
		{"printf", 1, 1 << 16, 1 << 16, gpubackend.Success},
		{"printf least", 1, 1, 4096, gpubackend.Success},
		{"printf above memory", 1, 1 << 40, 0, gpubackend.OutOfMemory},
		{"heap", 2, 1 << 20, 1 << 20, gpubackend.Success},
		{"heap above memory", 2, 1 << 40, 0, gpubackend.OutOfMemory},
		{"depth", 3, 1, 0, gpubackend.UnsupportedLimit},
		{"launches", 4, 100, 100, gpubackend.Success},
		{"fetch", 5, 1000, 128, gpubackend.Success}, {"persisting", 6, 1000, 0, gpubackend.Success},
		{"shared", 7, 1, 0, gpubackend.UnsupportedLimit},
		{"unknown", 10, 1, 0, gpubackend.InvalidValue},
	} {
		if got := d.CtxSetLimit(c.limit, c.value); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		if v, result := d.CtxGetLimit(c.limit); c.want == gpubackend.Success &&
			(v != c.got || result != gpubackend.Success) {
			t.Errorf("%s: %d, result %d", c.name, v, result)
		}
	}
	_, result := d.CtxGetLimit(3)
	want(t, result, gpubackend.UnsupportedLimit)
	ok(t, d.CtxSetCacheConfig(2))
	if v, _ := d.CtxGetCacheConfig(); v != 2 {
		t.Errorf("cache configuration %d", v)
	}
	want(t, d.CtxSetCacheConfig(4), gpubackend.InvalidValue)
	if least, greatest, _ := d.CtxGetStreamPriorityRange(); int64(least) != 0 ||
		int64(greatest) != -5 {
		t.Errorf("priorities %d to %d", int64(least), int64(greatest))
	}
}

func TestStreamAndEventErrors(t *testing.T) {
	d := newDevice(t, Options{})
	s, e := newStream(t, d, 0), newEvent(t, d)
	untimed, result := d.EventCreate(cudaabi.EventDisableTiming)
	ok(t, result)
	_, result = d.StreamCreateWithPriority(2, 0)
	want(t, result, gpubackend.InvalidValue)
	_, result = d.EventCreate(8)
	want(t, result, gpubackend.InvalidValue)
	_, result = d.EventCreate(cudaabi.EventInterprocess)
	want(t, result, gpubackend.InvalidValue)
	ok(t, d.EventQuery(e)) // never recorded
	ok(t, d.StreamWaitEvent(s, e, 0))
	want(t, d.StreamWaitEvent(s, e, 2), gpubackend.InvalidValue)
	want(t, d.EventRecordWithFlags(e, s, 2), gpubackend.InvalidValue)
	want(t, d.EventRecordWithFlags(e, 99999, 0), gpubackend.InvalidHandle)
	want(t, d.StreamDestroy(0), gpubackend.InvalidHandle)
	want(t, d.StreamQuery(2), gpubackend.InvalidHandle)
	want(t, d.StreamQuery(gpubackend.Stream(e)), gpubackend.InvalidHandle)
	want(t, d.EventQuery(gpubackend.Event(s)), gpubackend.InvalidHandle)
	_, result = d.EventElapsed(e, e)
	want(t, result, gpubackend.InvalidHandle)
	ok(t, d.EventRecordWithFlags(e, s, 0))
	ok(t, d.EventRecordWithFlags(untimed, s, 0))
	_, result = d.EventElapsed(e, untimed)
	want(t, result, gpubackend.InvalidHandle)
	c := createContext(t, d)
	want(t, d.EventRecordWithFlags(e, 0, 0), gpubackend.InvalidHandle) // of another context
	ok(t, d.StreamWaitEvent(0, e, 0))                                  // which is allowed
	ok(t, d.CtxDestroy(c))
	primary(t, d)
	ok(t, d.EventDestroy(e))
	want(t, d.EventDestroy(e), gpubackend.InvalidHandle)
	ok(t, d.StreamDestroy(s))
	want(t, d.StreamDestroy(s), gpubackend.InvalidHandle)
}

func TestEventElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, Options{})
		from, to := newEvent(t, d), newEvent(t, d)
		ok(t, d.EventRecordWithFlags(from, 0, 0))
		open := gate(t, d, 0)
		ok(t, d.EventRecordWithFlags(to, 0, 0))
		_, result := d.EventElapsed(from, to)
		want(t, result, gpubackend.NotReady)
		want(t, d.EventQuery(to), gpubackend.NotReady)
		time.Sleep(1500 * time.Microsecond)
		synctest.Wait()
		open()
		if ns, result := d.EventElapsed(from, to); ns != 1500000 || result != gpubackend.Success {
			t.Errorf("%d ns, result %d", ns, result)
		}
		if ns, _ := d.EventElapsed(to, from); int64(ns) != -1500000 {
			t.Errorf("%d ns backwards", int64(ns))
		}
	})
}

func TestDestroyedStreamGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, Options{})
		a, s := alloc(t, d, 16), newStream(t, d, 0)
		open := gate(t, d, s)
		ok(t, d.MemsetD8Async(a, 3, 16, s))
		ok(t, d.StreamDestroy(s))
		ok(t, d.MemsetD8Async(a, 4, 1, 0)) // after the destroyed stream's work
		want(t, d.StreamQuery(0), gpubackend.NotReady)
		open()
		synctest.Wait()
		synchronize(t, d)
		if got := read(t, d, a, 2); got[0] != 4 || got[1] != 3 {
			t.Errorf("got %v", got)
		}
		newStream(t, d, 0)
		if n := d.Kept(d.Primary(0)); n != 1 {
			t.Errorf("%d streams are kept", n)
		}
	})
}
