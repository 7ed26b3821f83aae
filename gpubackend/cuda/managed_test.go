// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
)

// managedText has variables that the fake has content for, and those of which it doesn't matter.
const managedText = ".version 6.5\n.target sm_75\n.address_size 64\n.global .attribute(.managed) .align 4 .u32 counter = 5;\n" +
	".global .attribute(.managed) .align 8 .b8 zeros[100];\n.visible .entry empty() { .reg .b64 %r; mov.u64 %r, counter; }\n"

// compiled is an image with sm_90 code and PTX, of package managed's vars.cu.
func compiled(tb testing.TB, name string) []byte {
	tb.Helper()
	image, err := os.ReadFile(filepath.Join("../managed/testdata/golden", name))
	if err != nil {
		tb.Fatal(err)
	}
	return image
}

// guestBlock is memory that HostRegister gets; it isn't zero.
func guestBlock(tb testing.TB) (mem []byte, base uint64) {
	tb.Helper()
	mem, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			tb.Error(err)
		}
	})
	for i := range mem {
		mem[i] = 0xa5
	}
	return mem, cmem.AddressOf(mem)
}

// registered is guestBlock, registered.
func registered(tb testing.TB, d *Device) (mem []byte, base uint64) {
	tb.Helper()
	mem, base = guestBlock(tb)
	must(tb, "register", d.HostRegister(base, uint64(len(mem)), true))
	tb.Cleanup(func() { d.HostUnregister(base, uint64(len(mem))) }) // which the test may have done
	return mem, base
}

// logged is a device whose log can be read.
func logged(tb testing.TB) (*Device, *bytes.Buffer) {
	tb.Helper()
	var out bytes.Buffer
	log := logrus.New()
	log.SetOutput(&out)
	return newDevice(tb, Options{Log: logrus.NewEntry(log)}), &out
}

func TestManagedVariables(t *testing.T) {
	for _, c := range []struct {
		name  string
		image []byte
		form  string // how what the driver gets begins
		bytes map[string]uint64
	}{
		{"PTX", []byte(managedText), ".version", map[string]uint64{"counter": 4, "zeros": 100}},
		{"fat binary", compiled(t, "vars.fatbin"), "\x7fELF",
			map[string]uint64{"counter": 4, "table": 56, "numbers": 2000, "toPlain": 8, "flag": 1}},
		{"cubin", compiled(t, "linked.cubin"), "\x7fELF",
			map[string]uint64{"counter": 4, "table": 56, "numbers": 2000, "toPlain": 8, "flag": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDevice(t, Options{})
			_, _, _, r := d.ModuleLoadData(c.image, nil, nil, nil)
			want(t, "plain load", r, gpubackend.NotReady)
			size, r := d.ManagedBytes(c.image)
			if must(t, "bytes", r); size < 104 || size > 4096 {
				t.Fatalf("%d bytes of managed variables", size)
			}
			mem, base := registered(t, d)
			before := drivertest.Count("cuModuleLoadDataEx")
			m, _, _, r := d.ModuleLoadManaged(c.image, nil, base, nil, nil)
			must(t, "load", r)
			if !strings.HasPrefix(drivertest.Image(), c.form) ||
				drivertest.Count("cuModuleLoadDataEx") != before+1 {
				t.Errorf("the driver got %q", drivertest.Image())
			}
			used := 0
			for name, bytes := range c.bytes {
				addr, n, r := d.ModuleGetGlobal(m, name)
				if must(t, name, r); n != bytes || addr < base || addr-base+n > size {
					t.Fatalf("%s: %d bytes at %#x, block at %#x", name, n, addr, base)
				}
				used += int(n)
				checkContent(t, name, mem[addr-base:][:n])
			}
			if tail := mem[size:]; bytes.Count(tail, []byte{0xa5}) != len(tail) {
				t.Error("memory behind the variables was written")
			}
			addr, n, r := d.ModuleGetGlobal(m, "other")
			if must(t, "other variable", r); addr != 0x5000 || n != 4 {
				t.Errorf("other: %d bytes at %#x", n, addr)
			}
			must(t, "unload", d.ModuleUnload(m))
			if m, _ := d.Placed(); m != 0 {
				t.Error("the module is remembered")
			}
		})
	}
}

// checkContent compares a variable with what the fake has for it.
func checkContent(t *testing.T, name string, got []byte) {
	t.Helper()
	wanted := map[string][]uint64{"counter": {5}, "table": {1, 2, 3, 4, 5, 6, 7},
		"toPlain": {0x5000}}[name]
	var b []byte
	for _, w := range wanted {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	b = append(b, make([]byte, max(0, len(got)-len(b)))...)
	if !bytes.Equal(got, b[:len(got)]) {
		t.Errorf("%s: content %x", name, got)
	}
}

// TestManagedAddresses looks at the text that the driver gets.
func TestManagedAddresses(t *testing.T) {
	d := newDevice(t, Options{})
	_, base := registered(t, d)
	m, _, _, r := d.ModuleLoadManaged([]byte(managedText), nil, base+4096, nil, nil)
	must(t, "load", r)
	addr, _, r := d.ModuleGetGlobal(m, "counter")
	must(t, "counter", r)
	load := fmt.Sprintf("mov.u64 %%managed0_0, %#x;", base+4096)
	if text := drivertest.Image(); addr != base+4096 || !strings.Contains(text, load) ||
		strings.Contains(text, ".managed") {
		t.Errorf("counter is at %#x in %s", addr, text)
	}
}

// TestManagedFallsBack has a driver that refuses the rewritten cubin: it gets the PTX.
func TestManagedFallsBack(t *testing.T) {
	d, out := logged(t)
	drivertest.Tell("fake_refuse_elf", 1)
	t.Cleanup(func() { drivertest.Tell("fake_refuse_elf", 0) })
	mem, base := registered(t, d)
	image := compiled(t, "vars.fatbin")
	m, _, _, r := d.ModuleLoadManaged(image, nil, base, nil, nil)
	must(t, "load", r)
	addr, n, r := d.ModuleGetGlobal(m, "table")
	must(t, "table", r)
	checkContent(t, "table", mem[addr-base:][:n])
	if !strings.Contains(drivertest.Image(), ".version") ||
		!strings.Contains(out.String(), "form=cubin") {
		t.Errorf("image %q, log %s", drivertest.Image(), out.String())
	}
	_, _, _, r = d.ModuleLoadManaged(compiled(t, "linked.cubin"), nil, base, nil, nil)
	want(t, "cubin alone", r, gpubackend.InvalidImage)
}

func TestManagedWithoutMemory(t *testing.T) {
	d := newDevice(t, Options{})
	mem, base := registered(t, d)
	_, other := guestBlock(t)
	_, readOnly := guestBlock(t)
	must(t, "register", d.HostRegister(readOnly, 1<<16, false))
	t.Cleanup(func() { d.HostUnregister(readOnly, 1<<16) })
	device, r := d.MemAlloc(1 << 16)
	must(t, "device memory", r)
	before := drivertest.Count("cuModuleLoadDataEx") + drivertest.Count("cuLibraryLoadData")
	for _, c := range []struct {
		name, image string
		at          uint64
	}{
		{"none", managedText, 0},
		{"not aligned", managedText, base + 8},
		{"not registered", managedText, other},
		{"device memory", managedText, device},
		{"read-only", managedText, readOnly},
		{"too little", strings.Replace(managedText, "100", "70000", 1), base},
		{"at the end", strings.Replace(managedText, "100", "5000", 1),
			base + uint64(len(mem)) - 4096},
		{"an address that wraps", managedText, ^uint64(0) - 4095},
		{"for no variables", twoKernels, base},
	} {
		if _, _, _, r := d.ModuleLoadManaged([]byte(c.image), nil, c.at, nil,
			nil); r != gpubackend.InvalidValue {
			t.Errorf("module, %s: result %d", c.name, r)
		}
		if _, _, _, r := d.LibraryLoadManaged([]byte(c.image), nil, c.at, nil,
			nil); r != gpubackend.InvalidValue {
			t.Errorf("library, %s: result %d", c.name, r)
		}
	}
	if drivertest.Count("cuModuleLoadDataEx")+drivertest.Count("cuLibraryLoadData") != before {
		t.Error("the driver got an image")
	}
	must(t, "unregister", d.HostUnregister(base, uint64(len(mem))))
	_, _, _, r = d.ModuleLoadManaged([]byte(managedText), nil, base, nil, nil)
	want(t, "memory taken back", r, gpubackend.InvalidValue)
	size, r := d.ManagedBytes([]byte(twoKernels))
	if must(t, "no variables", r); size != 0 {
		t.Errorf("%d bytes", size)
	}
}

func TestManagedRefused(t *testing.T) {
	d, out := logged(t)
	for _, c := range []struct {
		name, image string
		r           gpubackend.Result
		log         string
	}{
		{"rubbish", "rubbish", gpubackend.InvalidImage, ""},
		{"no version", ".rubbish", gpubackend.InvalidImage, ""},
		{"for another GPU", strings.Replace(managedText, "sm_75", "sm_100", 1),
			gpubackend.NoBinaryForGPU, ""},
		{"32 bits", strings.Replace(managedText, "64", "32", 1), gpubackend.NotSupported,
			"code=compute_XX"},
	} {
		out.Reset()
		_, r := d.ManagedBytes([]byte(c.image))
		want(t, c.name, r, c.r)
		_, _, _, r = d.ModuleLoadManaged([]byte(c.image), nil, 4096, nil, nil)
		want(t, c.name, r, c.r)
		if !strings.Contains(out.String(), c.log) {
			t.Errorf("%s: log %s", c.name, out.String())
		}
	}
	_, base := registered(t, d)
	broken := strings.Replace(managedText, "zeros", "broken", 2) + "// broken\n"
	info := make([]byte, 64)
	_, _, used, r := d.ModuleLoadManaged([]byte(broken), nil, base, nil, info)
	if want(t, "refused by the assembler", r,
		gpubackend.InvalidPTX); !strings.Contains(string(info[:used]), "ptxas error") {
		t.Errorf("log %q", info[:used])
	}
}

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
		"module": func() (uint64, uint64,
			gpubackend.Result) {
			return d.ModuleGetGlobal(m, "counter")
		},
		"global": func() (uint64, uint64,
			gpubackend.Result) {
			return d.LibraryGetGlobal(l, "counter")
		},
		"library": func() (uint64, uint64,
			gpubackend.Result) {
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

// TestManagedFilledInTime: what the program may touch has its content as soon as there is any
// context, which need not be current.
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
		before, after step // of loading the library
		filled        bool // before the step after it
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

// TestManagedMemoryWentAway has a guest take the memory back before there is a context, and
// contexts that end.
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

// TestOverlookedVariables has the driver know a managed variable that the image didn't show: it
// isn't given out.
func TestOverlookedVariables(t *testing.T) {
	d, out := logged(t)
	m, _, _, r := d.ModuleLoadData([]byte(twoKernels), nil, nil, nil)
	must(t, "load", r)
	l, _, _, r := d.LibraryLoadData([]byte(twoKernels), nil, nil, nil)
	must(t, "load", r)
	for _, get := range []func(name string) (uint64, uint64, gpubackend.Result){
		func(name string) (uint64, uint64, gpubackend.Result) { return d.ModuleGetGlobal(m, name) },
		func(name string) (uint64, uint64,
			gpubackend.Result) {
			return d.LibraryGetGlobal(l, name)
		},
	} {
		addr, bytes, r := get("plain")
		if must(t, "plain variable", r); addr != 0x5000 || bytes != 4 {
			t.Errorf("plain: %d bytes at %#x", bytes, addr)
		}
		if addr, bytes, r = get("hidden"); addr != 0 || bytes != 0 || r != gpubackend.NotSupported {
			t.Errorf("hidden: %d bytes at %#x, result %d", bytes, addr, r)
		}
	}
	_, _, r = d.LibraryGetManaged(l, "hidden")
	want(t, "managed variable", r, gpubackend.NotSupported)
	_, _, r = d.LibraryGetManaged(l, "plain")
	want(t, "no managed variable", r, gpubackend.NotFound)
	if strings.Count(out.String(), "variable=hidden") != 3 {
		t.Errorf("log: %s", out.String())
	}
}

// TestLentMemory has contexts come and go under memory that was given without one.
func TestLentMemory(t *testing.T) {
	d := newDevice(t, Options{})
	primary := d.CurrentHandle()
	must(t, "no context", d.SetCurrent(0))
	mem, base := guestBlock(t)
	count := func(what string, n, gone uint64) {
		t.Helper()
		if r, u := drivertest.Count("cuMemHostRegister_v2"),
			drivertest.Count("cuMemHostUnregister"); r != n || u != gone {
			t.Errorf("%s: registered %d times, unregistered %d times; want %d, %d", what, r, u, n,
				gone)
		}
	}
	r, u := drivertest.Count("cuMemHostRegister_v2"), drivertest.Count("cuMemHostUnregister")
	must(t, "register", d.HostRegister(base, uint64(len(mem)), true))
	count("without a context", r, u)
	must(t, "unregister", d.HostUnregister(base, uint64(len(mem))))
	count("unknown", r, u)
	must(t, "register", d.HostRegister(base, uint64(len(mem)), true))
	c, result := d.CtxCreate(0, 0)
	must(t, "create", result)
	must(t, "context", d.SetCurrent(c))
	count("first context", r+1, u)
	must(t, "context", d.SetCurrent(primary))
	count("second context", r+1, u)
	must(t, "destroy", d.CtxDestroy(c))
	must(t, "no context", d.SetCurrent(0))
	must(t, "context", d.SetCurrent(primary)) // the fake has kept the registration, as a driver may
	count("after the first", r+2, u)
	must(t, "no context", d.SetCurrent(0))
	must(t, "unregister", d.HostUnregister(base, uint64(len(mem))))
	count("in the end", r+2, u+1)
	if d.CurrentHandle() != 0 || d.Registered() != 0 {
		t.Error("the context has changed")
	}
	must(t, "context", d.SetCurrent(primary))
}
