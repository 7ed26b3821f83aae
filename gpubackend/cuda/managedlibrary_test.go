// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
)

func TestManagedLibrary(t *testing.T) {
	d := newDevice(t, Options{})
	_, _, _, r := d.LibraryLoadData([]byte(managedText), nil, nil, nil)
	want(t, "plain load", r, gpubackend.NotReady)
	current := d.CurrentHandle()
	must(t, "no context", d.SetCurrent(0))
	must(t, "release", d.DevicePrimaryCtxRelease(0))
	before := drivertest.Count("cuMemHostRegister_v2")
	mem, base := registered(t, d)
	l, _, _, r := d.LibraryLoadManaged([]byte(managedText), nil, base, nil, nil)
	must(t, "load", r)
	k, r := d.LibraryGetKernel(l, "empty")
	must(t, "kernel", r)
	addr, n, r := d.LibraryGetManaged(l, "counter")
	if must(t, "without a context", r); addr != base || n != 4 {
		t.Errorf("counter: %d bytes at %#x", n, addr)
	}
	_, _, r = d.LibraryGetManaged(l, "plain")
	want(t, "plain without a context", r, gpubackend.NotFound)
	_, _, r = d.LibraryGetGlobal(l, "counter")
	want(t, "without a context", r, gpubackend.InvalidContext)
	if mem[0] != 0xa5 || drivertest.Count("cuMemHostRegister_v2") != before {
		t.Error("filled or registered without a context")
	}
	_, r = d.DevicePrimaryCtxRetain(0)
	must(t, "retain", r)
	checkContent(t, "counter", mem[:4])
	if d.CurrentHandle() != 0 || drivertest.Count("cuMemHostRegister_v2") != before+1 {
		t.Errorf("context %#x is current; registered %d times", d.CurrentHandle(),
			drivertest.Count("cuMemHostRegister_v2")-before)
	}
	mem[0] = 77
	must(t, "context", d.SetCurrent(current))
	_, r = d.KernelGetFunction(k)
	must(t, "function", r)
	m, r := d.LibraryGetModule(l)
	must(t, "module", r)
	for what, get := range map[string]func() (uint64, uint64, gpubackend.Result){
		"module": func() (uint64, uint64, gpubackend.Result) {
			return d.ModuleGetGlobal(m, "counter")
		},
		"global": func() (uint64, uint64, gpubackend.Result) {
			return d.LibraryGetGlobal(l, "counter")
		},
		"library": func() (uint64, uint64, gpubackend.Result) {
			return d.LibraryGetManaged(l, "counter")
		},
	} {
		if addr, n, r := get(); addr != base || n != 4 || r != gpubackend.Success {
			t.Errorf("%s: %d bytes at %#x, result %d", what, n, addr, r)
		}
	}
	_, _, r = d.LibraryGetManaged(l, "plain")
	want(t, "plain", r, gpubackend.NotFound)
	if mem[0] != 77 {
		t.Error("filled twice")
	}
	must(t, "no context", d.SetCurrent(0))
	addr, _, r = d.LibraryGetManaged(l, "counter")
	if must(t, "for all contexts", r); addr != base {
		t.Errorf("counter at %#x", addr)
	}
	must(t, "context", d.SetCurrent(current))
	must(t, "unload", d.LibraryUnload(l))
	if m, l := d.Placed(); m+l != 0 {
		t.Error("the library is remembered")
	}
}

// TestManagedFilledInTime: variables have their content as soon as there is a context, which need
// not be current.
func TestManagedFilledInTime(t *testing.T) {
	type step func(*Device) gpubackend.Result
	retain := func(d *Device) gpubackend.Result { _, r := d.DevicePrimaryCtxRetain(0); return r }
	create := func(d *Device) gpubackend.Result { _, r := d.CtxCreate(0, 0); return r }
	nothing := func(*Device) gpubackend.Result { return gpubackend.Success }
	none := func(d *Device) gpubackend.Result {
		d.SetCurrent(0)
		return d.DevicePrimaryCtxRelease(0)
	}
	for _, c := range []struct {
		name          string
		before, after step // the loading of the library
		filled        bool // by the end of the loading
	}{
		{"none", none, nothing, false},
		{"primary", none, retain, false},
		{"own", none, create, false},
		{"current before it begins", func(d *Device) gpubackend.Result {
			h := d.CurrentHandle()
			none(d)
			return d.SetCurrent(h)
		}, retain, false},
		{"current", nothing, nothing, true},
		{"another thread's", func(d *Device) gpubackend.Result { return d.SetCurrent(0) }, nothing,
			true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDevice(t, Options{})
			must(t, "before", c.before(d))
			current := d.CurrentHandle()
			must(t, "no context", d.SetCurrent(0))
			mem, base := registered(t, d)
			must(t, "context", d.SetCurrent(current))
			l, _, _, r := d.LibraryLoadManaged([]byte(managedText), nil, base, nil, nil)
			must(t, "load", r)
			if filled := mem[0] == 5; filled != c.filled {
				t.Errorf("filled when loaded: %v", filled)
			}
			addr, _, r := d.LibraryGetManaged(l, "counter")
			if must(t, "counter", r); addr != base {
				t.Errorf("counter at %#x", addr)
			}
			must(t, "after", c.after(d))
			if c.name == "none" {
				checkUntouched(t, mem)
			} else {
				checkContent(t, "counter", mem[:4])
			}
			if d.CurrentHandle() != current {
				t.Errorf("context %#x is current, not %#x", d.CurrentHandle(), current)
			}
			must(t, "unload", d.LibraryUnload(l))
		})
	}
}

func checkUntouched(t *testing.T, mem []byte) {
	t.Helper()
	if bytes.Count(mem, []byte{0xa5}) != len(mem) {
		t.Error("written without a context")
	}
}

// TestManagedMemoryWentAway has a guest take the memory back before there is a context, and then
// ends a context that has a module with managed variables.
func TestManagedMemoryWentAway(t *testing.T) {
	d := newDevice(t, Options{})
	current := d.CurrentHandle()
	must(t, "no context", d.SetCurrent(0))
	must(t, "release", d.DevicePrimaryCtxRelease(0))
	mem, base := registered(t, d)
	l, _, _, r := d.LibraryLoadManaged([]byte(managedText), nil, base, nil, nil)
	must(t, "load", r)
	must(t, "unregister", d.HostUnregister(base, uint64(len(mem))))
	_, r = d.DevicePrimaryCtxRetain(0)
	must(t, "retain", r)
	must(t, "context", d.SetCurrent(current))
	_, _, r = d.LibraryGetManaged(l, "counter")
	want(t, "counter", r, gpubackend.InvalidValue)
	_, r = d.LibraryGetModule(l)
	want(t, "module", r, gpubackend.InvalidValue)
	if mem[0] != 0xa5 {
		t.Error("memory that was taken back was written")
	}
	must(t, "unload", d.LibraryUnload(l))

	c, r := d.CtxCreate(0, 0)
	must(t, "create", r)
	must(t, "context", d.SetCurrent(c))
	must(t, "register", d.HostRegister(base, uint64(len(mem)), true))
	_, _, _, r = d.ModuleLoadManaged([]byte(managedText), nil, base, nil, nil)
	must(t, "load", r)
	must(t, "destroy", d.CtxDestroy(c))
	if m, _ := d.Placed(); m != 0 {
		t.Error("the module of a context that ended is remembered")
	}
	must(t, "context", d.SetCurrent(current))
}
