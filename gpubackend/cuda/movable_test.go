// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

var movable = Options{MovableCode: true}

// variable is where a module has the variable of plain.cu that is called so.
func (d *Device) variable(t *testing.T, m gpubackend.Module, name string) uint64 {
	t.Helper()
	addr, _, r := d.ModuleGetGlobal(m, name)
	must(t, "find "+name, r)
	if !d.ranges.InWindow(addr) {
		t.Fatalf("%s is at %#x, outside the window", name, addr)
	}
	return addr
}

func word(addr uint64) uint32 { return binary.LittleEndian.Uint32(cmem.At(addr, 4)) }

// TestVariablesMadeAgain: another device has a module's and a library's variables where the first
// has them.
func TestVariablesMadeAgain(t *testing.T) {
	image := compiled(t, "plain.cubin")
	first := newDevice(t, movable)
	l, _, _, r := first.LibraryLoadData(image, nil, nil, nil)
	must(t, "load a library", r)
	m, _, _, r := first.ModuleLoadData(image, nil, nil, nil)
	must(t, "load a module", r)
	counter, seven := first.variable(t, m, "counter"), first.variable(t, m, "seven")
	if word(counter) != 0 || word(seven) != 7 {
		t.Errorf("they begin with %d and %d", word(counter), word(seven))
	}
	of, r := first.LibraryGetModule(l)
	must(t, "module", r)
	library, bytesOf, r := first.LibraryGetGlobal(l, "seven")
	must(t, "find it", r)
	if library != first.variable(t, of, "seven") || library == seven || bytesOf != 4 {
		t.Errorf("the library's is at %#x, the module's at %#x", library, seven)
	}
	if why := first.Unsavable() + first.UnsavableCode(image, nil); why != "" {
		t.Fatal(why)
	}
	var layout bytes.Buffer
	if err := first.SaveLayout(&layout); err != nil {
		t.Fatal(err)
	}
	codes := first.Codes()
	first.memoryRoom.Close()

	d := openDevice(t, movable, &layout)
	for _, x := range codes {
		if err := d.PlaceCode(x.Address); err != nil {
			t.Fatal(err)
		}
		if x.Library != 0 {
			l, _, _, r = d.LibraryLoadData(image, nil, nil, nil)
		} else {
			m, _, _, r = d.ModuleLoadData(image, nil, nil, nil)
		}
		must(t, "load", r)
	}
	if err := d.LayoutRestored(); err != nil {
		t.Fatal(err)
	}
	if addr := d.variable(t, m, "seven"); addr != seven {
		t.Errorf("the module's is at %#x, not %#x", addr, seven)
	}
	if addr, _, _ := d.LibraryGetGlobal(l, "seven"); addr != library || len(codes) != 2 {
		t.Errorf("the library's is at %#x, not %#x", addr, library)
	}
	must(t, "unload", d.ModuleUnload(m))
	must(t, "unload", d.LibraryUnload(l))
	must(t, "wait", d.CtxSynchronize())
	d.Settled()
	if n := d.Allocations(0); n != 0 {
		t.Errorf("%d allocations are left", n)
	}
}

// TestLibraryBeforeContext: its variables get their content with the context, and again with the
// next one; a second context would share them.
func TestLibraryBeforeContext(t *testing.T) {
	d := loadDevice(t, movable)
	_, r := d.Open(nil)
	must(t, "open", r)
	l, _, _, r := d.LibraryLoadData(compiled(t, "plain.cubin"), nil, nil, nil)
	must(t, "load", r)
	for range 2 {
		c, r := d.DevicePrimaryCtxRetain(0)
		must(t, "retain", r)
		must(t, "set current", d.SetCurrent(c))
		seven, _, r := d.LibraryGetGlobal(l, "seven")
		must(t, "find it", r)
		if word(seven) != 7 {
			t.Errorf("it is %d", word(seven))
		}
		copy(cmem.At(seven, 4), "gone")
		_, r = d.CtxCreate(0, 0)
		want(t, "another context", r, gpubackend.OutOfMemory)
		must(t, "release", d.DevicePrimaryCtxRelease(0))
	}
}

// TestCodeThatStays is loaded as it is, and says why it keeps its program from being saved; it no
// longer does when it is gone.
func TestCodeThatStays(t *testing.T) {
	d := newDevice(t, movable)
	for name, why := range map[string]string{
		"constants.cubin": "constants", "functions.cubin": "twice",
	} {
		m, _, _, r := d.ModuleLoadData(compiled(t, name), nil, nil, nil)
		must(t, "load", r)
		if got := d.Unsavable(); !strings.Contains(got, why) {
			t.Errorf("%s: %q", name, got)
		}
		must(t, "unload", d.ModuleUnload(m))
		l, _, _, r := d.LibraryLoadData(compiled(t, name), nil, nil, nil)
		must(t, "load", r)
		if got := d.Unsavable(); !strings.Contains(got, why) {
			t.Errorf("%s, a library: %q", name, got)
		}
		must(t, "unload", d.LibraryUnload(l))
	}
	debug := binary.LittleEndian.AppendUint64(nil, cudaabi.JITGenerateDebugInfo)
	debug = binary.LittleEndian.AppendUint64(debug, 1)
	m, _, _, r := d.ModuleLoadData(compiled(t, "plain.cubin"), debug, nil, nil)
	must(t, "load for a debugger", r)
	if got := d.Unsavable(); !strings.Contains(got, "debugger") {
		t.Errorf("for a debugger: %q", got)
	}
	must(t, "unload", d.ModuleUnload(m))
	if got := d.Unsavable(); got != "" {
		t.Error(got)
	}
	drivertest.Tell("fake_refuse_elf", 1)
	t.Cleanup(func() { drivertest.Tell("fake_refuse_elf", 0) })
	_, _, _, r = d.ModuleLoadData(compiled(t, "plain.cubin"), nil, nil, nil)
	want(t, "refused by the driver", r, gpubackend.InvalidImage)
	must(t, "wait", d.CtxSynchronize())
	d.Settled()
	if n := d.Allocations(0); n != 0 {
		t.Errorf("%d allocations are left", n)
	}
}
