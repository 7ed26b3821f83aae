// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// managedPTX has two managed variables, the second of which points to the first, and a kernel that
// adds 1 to counter.
const managedPTX = `.version 8.0
.target sm_75
.address_size 64
.global .attribute(.managed) .align 4 .u32 counter = 5;
.global .align 4 .u32 plain = 3;
.global .attribute(.managed) .align 8 .u64 where = generic(counter);
.visible .entry increment() {
	.reg .b32 %r<2>;
	ld.global.u32 %r1, [counter];
	add.s32 %r1, %r1, 1;
	st.global.u32 [counter], %r1;
	ret;
}
`

func TestManagedVariables(t *testing.T) {
	d := newDevice(t, Options{})
	image := []byte(managedPTX)
	_, _, _, result := d.ModuleLoadData(image, nil, nil, nil)
	want(t, result, gpubackend.NotReady)
	size, result := d.ManagedBytes(image)
	ok(t, result)
	if size != 16 {
		t.Errorf("%d bytes of managed variables", size)
	}
	host := registeredPage(t, d)
	m, _, _, result := d.ModuleLoadManaged(image, nil, host, nil, nil)
	ok(t, result)
	for name, at := range map[string]struct{ addr, size uint64 }{"counter": {host, 4},
		"where": {host + 8, 8}} {
		if addr, bytes, result := d.ModuleGetGlobal(m, name); addr != at.addr || bytes != at.size ||
			result != 0 {
			t.Errorf("%s: %d bytes at %#x, result %d", name, bytes, addr, result)
		}
	}
	if addr, _, _ := d.ModuleGetGlobal(m, "plain"); !d.Space().InWindow(addr) {
		t.Errorf("plain is at %#x", addr)
	}
	if v, p := *wordAt(host), uint64(*wordAt(host + 8))|uint64(*wordAt(host + 12))<<32; v != 5 ||
		p != host {
		t.Errorf("counter %d, where %#x; want 5, %#x", v, p, host)
	}
	*wordAt(host) = 41
	start(t, d, getFunction(t, d, m, "increment"), 1, 0, nil)
	synchronize(t, d)
	if v := *wordAt(host); v != 42 {
		t.Errorf("counter %d after the kernel", v)
	}
	ok(t, d.ModuleUnload(m))
	if v := *wordAt(host); v != 42 {
		t.Errorf("counter %d after unloading", v)
	}
}

func TestManagedVariablesWithoutMemory(t *testing.T) {
	d := newDevice(t, Options{})
	host := registeredPage(t, d)
	plain := strings.ReplaceAll(managedPTX, ".attribute(.managed)", "")
	huge := strings.ReplaceAll(managedPTX, ".u32 counter = 5", ".b8 counter[4096]")
	for _, c := range []struct {
		name, image string
		managed     uint64
	}{
		{"none", managedPTX, 0},
		{"not aligned", managedPTX, host + 4},
		{"not registered", managedPTX, host + 4096},
		{"device memory", managedPTX, alloc(t, d, 4096)},
		{"too little", huge, host},
		{"for no variables", plain, host},
	} {
		if _, _, _, result := d.ModuleLoadManaged([]byte(c.image), nil, c.managed, nil,
			nil); result != gpubackend.InvalidValue {
			t.Errorf("module, %s: result %d", c.name, result)
		}
		if _, _, _, result := d.LibraryLoadManaged([]byte(c.image), nil, c.managed, nil,
			nil); result != gpubackend.InvalidValue {
			t.Errorf("library, %s: result %d", c.name, result)
		}
	}
	size, result := d.ManagedBytes([]byte(plain))
	if ok(t, result); size != 0 {
		t.Errorf("%d bytes of no variables", size)
	}
	_, result = d.ManagedBytes([]byte("rubbish"))
	want(t, result, gpubackend.InvalidImage)
}

func TestManagedVariablesOfLibrary(t *testing.T) {
	d := newDevice(t, Options{})
	image, host := []byte(managedPTX), registeredPage(t, d)
	_, _, _, result := d.LibraryLoadData(image, nil, nil, nil)
	want(t, result, gpubackend.NotReady)
	leaveNoContext(t, d)
	l, _, _, result := d.LibraryLoadManaged(image, nil, host, nil, nil)
	ok(t, result)
	addr, bytes, result := d.LibraryGetManaged(l, "counter")
	if ok(t, result); addr != host || bytes != 4 || *wordAt(host) != 0 {
		t.Errorf("without a context: %d bytes at %#x, content %d", bytes, addr, *wordAt(host))
	}
	_, _, result = d.LibraryGetManaged(l, "plain")
	want(t, result, gpubackend.NotFound)
	k, result := d.LibraryGetKernel(l, "increment")
	ok(t, result)
	for range 2 { // one variable for all contexts, filled once
		createContext(t, d)
		f, result := d.KernelGetFunction(k)
		ok(t, result)
		start(t, d, f, 1, 0, nil)
		synchronize(t, d)
	}
	ok(t, d.SetCurrent(0))
	addr, bytes, result = d.LibraryGetManaged(l, "counter")
	if ok(t, result); addr != host || bytes != 4 || *wordAt(addr) != 7 {
		t.Errorf("%d bytes at %#x, content %d", bytes, addr, *wordAt(host))
	}
	for _, name := range []string{"plain", "missing", ""} {
		_, _, result = d.LibraryGetManaged(l, name)
		want(t, result, gpubackend.NotFound)
	}
	ok(t, d.LibraryUnload(l))
	_, _, result = d.LibraryGetManaged(l, "counter")
	want(t, result, gpubackend.InvalidHandle)
}

// TestLibraryFilledInTime: a library's managed variables have their content as soon as there is any
// context, even if it isn't current.
func TestLibraryFilledInTime(t *testing.T) {
	for name, begin := range map[string]func(*Device) gpubackend.Result{
		"primary": func(d *Device) gpubackend.Result {
			_, r := d.DevicePrimaryCtxRetain(0)
			return r
		},
		"own": func(d *Device) gpubackend.Result { _, r := d.CtxCreate(0, 0); return r },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDevice(t, Options{})
			host := registeredPage(t, d)
			leaveNoContext(t, d)
			l, _, _, result := d.LibraryLoadManaged([]byte(managedPTX), nil, host, nil, nil)
			ok(t, result)
			ok(t, begin(d))
			if _, result := d.Current(); *wordAt(host) != 5 || result != gpubackend.InvalidContext {
				t.Errorf("counter %d, current context: result %d", *wordAt(host), result)
			}
			*wordAt(host) = 6
			ok(t, begin(d))
			if v := *wordAt(host); v != 6 {
				t.Errorf("filled again: %d", v)
			}
			ok(t, d.LibraryUnload(l))
			_, _, _, result = d.LibraryLoadManaged([]byte(managedPTX), nil, host, nil, nil)
			if ok(t, result); *wordAt(host) != 5 {
				t.Errorf("counter %d, with a context that isn't current", *wordAt(host))
			}
		})
	}
}

// leaveNoContext ends the context that newDevice has made.
func leaveNoContext(t *testing.T, d *Device) {
	t.Helper()
	ok(t, d.SetCurrent(0))
	ok(t, d.DevicePrimaryCtxRelease(0))
}

// TestLibraryWhoseMemoryWentAway: the guest has unregistered it before a context needs it.
func TestLibraryWhoseMemoryWentAway(t *testing.T) {
	d := newDevice(t, Options{})
	host := registeredPage(t, d)
	leaveNoContext(t, d)
	l, _, _, result := d.LibraryLoadManaged([]byte(managedPTX), nil, host, nil, nil)
	ok(t, result)
	ok(t, d.HostUnregister(host, 4096))
	createContext(t, d)
	_, result = d.LibraryGetModule(l)
	want(t, result, gpubackend.InvalidValue)
	if v := *wordAt(host); v != 0 {
		t.Errorf("memory that was taken back was written: %d", v)
	}
}
