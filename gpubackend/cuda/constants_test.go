// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/copies"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// constantBytes is what each constant of the fake library has.
const constantBytes = 64

// constantOf is what a device tells of a constant, and where the driver has it.
func constantOf(t *testing.T, d *Device, m gpubackend.Module, name string) (told, real uint64) {
	t.Helper()
	told, n, r := d.ModuleGetGlobal(m, name)
	must(t, "find a constant", r)
	real, _, r = d.Driver.ModuleGetGlobal(m, name)
	must(t, "ask the driver", r)
	if told == real || told < devmem.Base || n != constantBytes || d.ranges.InWindow(told) {
		t.Fatalf("%s is at %#x, %#x of the driver, %d bytes", name, told, real, n)
	}
	return told, real
}

func loadedModule(t *testing.T, d *Device) gpubackend.Module {
	t.Helper()
	m, _, _, r := d.ModuleLoadData(compiled(t, "plain.cubin"), nil, nil, nil)
	must(t, "load", r)
	return m
}

// TestConstantsMadeAgain: another device has what the first device's constants held, elsewhere, and
// the guest knows them by the same addresses.
func TestConstantsMadeAgain(t *testing.T) {
	image := compiled(t, "plain.cubin")
	o := movable
	o.HostMemory = budget.New(1 << 30)
	first := newDevice(t, o)
	l, _, _, r := first.LibraryLoadData(image, nil, nil, nil)
	must(t, "load a library", r)
	m := loadedModule(t, first)
	of, r := first.LibraryGetModule(l)
	must(t, "module", r)
	one, realOne := constantOf(t, first, m, "constant1")
	two, _ := constantOf(t, first, m, "constant2")
	library, _, r := first.LibraryGetGlobal(l, "constant1")
	must(t, "find the library's", r)
	if again, _ := constantOf(t, first, of, "constant1"); again != library || one == library {
		t.Errorf("the library's is at %#x and %#x, the module's at %#x", library, again, one)
	}
	must(t, "write", first.CopyIn(one+8, []byte("of a module"), 0))
	must(t, "write", first.CopyIn(library, []byte("of a library"), 0))
	if why := first.Unsavable() + first.UnsavableCode(image, nil); why != "" {
		t.Fatal(why)
	}
	var layout bytes.Buffer
	if err := first.SaveLayout(&layout); err != nil {
		t.Fatal(err)
	}
	codes, used := first.Codes(), o.HostMemory.Used()
	first.Close()

	o.HostMemory = budget.New(1 << 30)
	d := openDevice(t, o, &layout)
	for _, x := range codes {
		if err := d.ConstantsRestored(); err == nil {
			t.Error("all constants are said to be there")
		}
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
	if now := o.HostMemory.Used(); now != used {
		t.Errorf("%d bytes count, it were %d", now, used)
	}
	content := make([]byte, 11)
	must(t, "read", d.CopyOut(content, one+8))
	if string(content) != "of a module" {
		t.Errorf("the module's holds %q", content)
	}
	must(t, "read", d.CopyOut(content, library))
	if string(content) != "of a librar" {
		t.Errorf("the library's holds %q", content)
	}
	must(t, "read", d.CopyOut(content, two))
	if string(content) != "ccccccccccc" {
		t.Errorf("what nobody wrote to holds %q", content)
	}
	told, real := constantOf(t, d, m, "constant1")
	if told != one || real == realOne || string(cmem.At(real+8, 11)) != "of a module" {
		t.Errorf("it is told as %#x, not %#x; the driver has it at %#x, and had it at %#x", told,
			one, real, realOne)
	}
	if told, _, _ = d.LibraryGetGlobal(l, "constant1"); told != library {
		t.Errorf("the library's is told as %#x, not %#x", told, library)
	}
	if third, _ := constantOf(t, d, m, "constant3"); third == one || third == two ||
		third == library {
		t.Errorf("another is told as %#x, too", third)
	}
}

// TestConstantInEachWay: each kind of copy and fill reaches where the driver has it.
func TestConstantInEachWay(t *testing.T) {
	d := newDevice(t, movable)
	m := loadedModule(t, d)
	told, real := constantOf(t, d, m, "constant0")
	other, realOther := constantOf(t, d, m, "constant1")
	content, there := cmem.At(real, constantBytes), cmem.At(realOther, constantBytes)
	buffer := alloc(t, d, 4096)
	must(t, "fill", d.MemsetD8Async(buffer, 'x', 4096, 0))
	stream, r := d.StreamCreateWithPriority(cudaabi.StreamNonBlocking, 0)
	must(t, "make a stream", r)
	batch := copies.NewBatch(2)
	defer batch.Close()
	array := make(cudaabi.Memcpy3D, cudaabi.Memcpy3DSize)
	array.Src().SetMemoryType(cudaabi.MemoryTypeDevice)
	array.Src().SetDevice(buffer)
	array.Dst().SetMemoryType(cudaabi.MemoryTypeDevice)
	array.Dst().SetDevice(told + 4)
	array.SetWidthInBytes(3)
	array.SetHeight(1)
	array.SetDepth(1)
	box := gpubackend.Box{Dst: told + 4, DstPitch: 8, Src: buffer, SrcPitch: 16, Width: 1,
		Height: 3, Depth: 1}
	cube := gpubackend.Box{Dst: told + 4, DstPitch: 8, DstSlice: 16, Src: buffer, SrcPitch: 16,
		SrcSlice: 32, Width: 1, Height: 2, Depth: 2}
	for name, write := range map[string]func() gpubackend.Result{
		"CopyIn": func() gpubackend.Result { return d.CopyIn(told+4, []byte("xyz"), 0) },
		"Copy":   func() gpubackend.Result { return d.Copy(told+4, buffer, 5, 0) },
		"Copy to another": func() gpubackend.Result {
			there[9] = 'x'
			return d.Copy(told+4, other+9, 1, 0)
		},
		"MemcpyDtoDAsync": func() gpubackend.Result {
			return d.MemcpyDtoDAsync(told+4, buffer, 5, 0)
		},
		"CopyBox":     func() gpubackend.Result { return d.CopyBox(&box, 0) },
		"CopyBox, 3D": func() gpubackend.Result { return d.CopyBox(&cube, 0) },
		"CopyArray":   func() gpubackend.Result { return d.CopyArray(array, 0) },
		"CopyBatch": func() gpubackend.Result {
			batch.Add(told+4, buffer, 2)
			batch.Add(told+8, buffer, 2)
			return d.CopyBatch(batch, stream)
		},
		"MemsetD8Async":  func() gpubackend.Result { return d.MemsetD8Async(told+4, 'x', 3, 0) },
		"MemsetD32Async": func() gpubackend.Result { return d.MemsetD32Async(told+4, 'x', 1, 0) },
	} {
		clear(content)
		must(t, name, write())
		if content[3] != 0 || content[4] != 'x' {
			t.Errorf("%s: the driver has %q", name, content[:8])
		}
		out := make([]byte, constantBytes)
		must(t, "CopyOut", d.CopyOut(out, told))
		if !bytes.Equal(out, content) {
			t.Errorf("%s: %q is read, not %q", name, out, content)
		}
	}
	for name, r := range map[string]gpubackend.Result{
		"beyond its end": d.CopyIn(told+60, []byte("12345"), 0),
		"rows": d.CopyBox(&gpubackend.Box{Dst: told, DstPitch: 60, Src: buffer,
			SrcPitch: 60, Width: 8, Height: 2, Depth: 1}, 0),
		"a fill":        d.MemsetD32Async(told, 0, 17, 0),
		"read":          d.CopyOut(make([]byte, 65), told),
		"from both":     d.Copy(told, other, 65, 0),
		"to free it":    d.MemFree(told),
		"where none is": d.CopyIn(told+128, []byte("1"), 0),
		"all addresses": d.Copy(told+1, buffer, ^uint64(0)-told, 0),
		"planes": d.CopyBox(&gpubackend.Box{Dst: told, DstPitch: 8, DstSlice: 1 << 40,
			Src: buffer, SrcPitch: 8, SrcSlice: 8, Width: 8, Height: 1, Depth: 2}, 0),
		"to share memory": func() gpubackend.Result { _, _, r := d.Share(told); return r }(),
		"a graph's":       d.GraphFree(told, 0),
	} {
		if r == gpubackend.Success {
			t.Errorf("%s: succeeds", name)
		}
	}
}

// TestConstantsEnd with their code, and with the context.
func TestConstantsEnd(t *testing.T) {
	d := newDevice(t, movable)
	image := compiled(t, "plain.cubin")
	m := loadedModule(t, d)
	told, _ := constantOf(t, d, m, "constant0")
	must(t, "unload", d.ModuleUnload(m))
	want(t, "write", d.CopyIn(told, []byte("gone"), 0), gpubackend.InvalidValue)
	l, _, _, r := d.LibraryLoadData(image, nil, nil, nil)
	must(t, "load a library", r)
	for range 2 {
		told, _, r = d.LibraryGetGlobal(l, "constant0")
		must(t, "find it", r)
		must(t, "write", d.CopyIn(told, []byte("here"), 0))
		must(t, "release", d.DevicePrimaryCtxRelease(0))
		c, r := d.DevicePrimaryCtxRetain(0)
		must(t, "retain", r)
		must(t, "set current", d.SetCurrent(c))
		want(t, "write", d.CopyIn(told, []byte("gone"), 0), gpubackend.InvalidValue)
	}
	must(t, "unload", d.LibraryUnload(l))
	if why := d.Unsavable(); why != "" {
		t.Error(why)
	}
}

// TestConstantIsTold: a program that knows where the driver has a constant can't go on elsewhere.
func TestConstantIsTold(t *testing.T) {
	taken := newDevice(t, movable)
	m := loadedModule(t, taken)
	_, r := taken.Driver.MemAddressReserve(1<<20, devmem.Behind)
	must(t, "take the addresses", r)
	t.Cleanup(func() {
		taken.Driver.MemAddressFree(devmem.Behind, 1<<20)
	})
	for range 2 {
		addr, _, r := taken.ModuleGetGlobal(m, "constant0")
		must(t, "find a constant", r)
		if real, _, _ := taken.Driver.ModuleGetGlobal(m, "constant0"); addr != real {
			t.Errorf("it is at %#x, not %#x", addr, real)
		}
		must(t, "write", taken.CopyIn(addr, []byte("text"), 0))
		if why := taken.Unsavable(); !strings.Contains(why, `"constant0"`) {
			t.Errorf("%q", why)
		}
	}
	must(t, "unload", taken.ModuleUnload(m))
	if why := taken.Unsavable(); why != "" {
		t.Error(why)
	}
}

// TestRestoredConstantsCount against the host's memory until their code has them: a record can name
// no more of them than a program.
func TestRestoredConstantsCount(t *testing.T) {
	var record []byte
	for i := range uint64(300) {
		for _, w := range []uint64{devmem.Base, devmem.Behind + i*256, 1, 4096} {
			record = binary.LittleEndian.AppendUint64(record, w)
		}
		record = append(record, make([]byte, 1+4096)...)
	}
	record = append(record, make([]byte, 8)...)
	for limit, want := range map[uint64]error{1 << 20: budget.ErrExceeded, 2 << 20: nil} {
		o := movable
		o.HostMemory = budget.New(limit)
		err := newDevice(t, o).RestoreConstants(bytes.NewReader(record))
		if !errors.Is(err, want) || want == nil && o.HostMemory.Used() < 300*4096 {
			t.Errorf("with %d bytes, of which %d are used: %v, want %v", limit,
				o.HostMemory.Used(), err, want)
		}
	}
}

// TestConstantsWithoutTheOption are where the driver has them.
func TestConstantsWithoutTheOption(t *testing.T) {
	d := newDevice(t, Options{})
	m := loadedModule(t, d)
	addr, _, r := d.ModuleGetGlobal(m, "constant0")
	must(t, "find a constant", r)
	if real, _, _ := d.Driver.ModuleGetGlobal(m, "constant0"); addr != real {
		t.Errorf("it is at %#x, not %#x", addr, real)
	}
}

// TestDamagedConstants are refused.
func TestDamagedConstants(t *testing.T) {
	record := func(words ...uint64) (b []byte) {
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "half a word": {1, 2, 3}, "no end": record(1, 2, 1, 0),
		"too many bytes":     record(1, 2, 16<<20+1, 0),
		"all bytes":          record(1, 2, ^uint64(0), 1),
		"an immense name":    record(1, 2, 1, 1<<20),
		"no bytes":           record(1, 2, 0, 0, 0),
		"of code that isn't": append(append(record(devmem.Base, 2, 1, 1), "xy"...), record(0)...),
	} {
		d := newDevice(t, movable)
		err := d.RestoreConstants(bytes.NewReader(b))
		if err == nil {
			err = d.ConstantsRestored()
		}
		if err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
