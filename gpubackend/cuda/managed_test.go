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
const managedText = `.version 6.5
.target sm_75
.address_size 64
.global .attribute(.managed) .align 4 .u32 counter = 5;
.global .attribute(.managed) .align 8 .b8 zeros[100];
.visible .entry empty() { .reg .b64 %r; mov.u64 %r, counter; }
`

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
		func(name string) (uint64, uint64, gpubackend.Result) {
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
