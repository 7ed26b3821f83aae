// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// TestMadeAgain: another device has the first one's memory at the same addresses, with its content,
// and allocates the next memory where the first would have.
func TestMadeAgain(t *testing.T) {
	made, freed := drivertest.Count("cuMemHostAlloc"), drivertest.Count("cuMemFreeHost")
	first := newDevice(t, Options{})
	want := map[uint64]uint64{}
	for _, bytes := range []uint64{100, 5 << 20, 40 << 20} {
		addr, r := first.MemAlloc(bytes)
		must(t, "allocate", r)
		want[addr] = bytes
		copy(cmem.At(addr, 16), "what is in here.")
	}
	gone, r := first.MemAlloc(3 << 20)
	must(t, "allocate", r)
	must(t, "free", first.MemFree(gone))
	staging, fd, r := first.Staging(1 << 20)
	must(t, "staging", r)
	unix.Close(fd)
	if why := first.Unsavable(); why != "" || !first.Saves() {
		t.Fatal(why)
	}
	var layout bytes.Buffer
	if err := first.SaveLayout(&layout); err != nil {
		t.Fatal(err)
	}
	allocated, pieces := first.Allocated(), first.Pieces()
	image := make([]byte, gpubackend.PieceBytes(pieces))
	must(t, "copy out", first.SavePieces(pieces, image))
	first.EndCopies()
	if len(allocated) != len(want) {
		t.Fatalf("%v, want %v", allocated, want)
	}
	next, r := first.MemAlloc(2 << 20)
	must(t, "allocate", r)
	must(t, "free", first.MemFree(next))
	first.Unstage(staging)
	first.memoryRoom.Close()

	d := openDevice(t, Options{}, &layout)
	if err := d.LayoutRestored(); err == nil {
		t.Fatal("nothing was asked for")
	}
	for _, a := range allocated {
		must(t, "take", d.TakeAllocation(a))
	}
	want2 := gpubackend.Allocation{Address: next, Bytes: 5}
	if r := d.TakeAllocation(want2); r != gpubackend.InvalidValue {
		t.Errorf("what wasn't there is taken: %d", r)
	}
	if err := d.LayoutRestored(); err != nil {
		t.Fatal(err)
	}
	buffers := drivertest.Count("cuMemHostAlloc") - made
	for part := range pieces { // one after the other, through the same buffers
		must(t, "copy in", d.LoadPieces(pieces[part:part+1], image))
		image = image[pieces[part].Bytes:]
	}
	d.EndCopies()
	made, freed = drivertest.Count("cuMemHostAlloc")-made, drivertest.Count("cuMemFreeHost")-freed
	if made != freed || made != 2*buffers || len(pieces) < 2 {
		t.Errorf("%d pinned buffers were made, %d of them before, and %d freed", made, buffers,
			freed)
	}
	for addr := range want {
		if text := string(cmem.At(addr, 16)); text != "what is in here." {
			t.Errorf("at %#x is %q", addr, text)
		}
	}
	if addr, r := d.MemAlloc(2 << 20); r != gpubackend.Success || addr != next {
		t.Errorf("the next memory is at %#x, not %#x: %d", addr, next, r)
	}
	for addr := range want {
		must(t, "free", d.MemFree(addr))
	}
}

// TestWhatKeepsIt from being saved: code with variables, whose place can't be chosen.
func TestWhatKeepsIt(t *testing.T) {
	d := newDevice(t, Options{})
	if d.PlaceCode(0) != nil || d.PlaceCode(devmem.Base) == nil {
		t.Error("a place can be chosen")
	}
	for text, want := range map[string]string{
		twoKernels: "", twoKernels + ".global .u32 counter;": `"counter"`, "nonsense": "read",
	} {
		if why := d.UnsavableCode([]byte(text), nil); !strings.Contains(why, want) ||
			(want == "") != (why == "") {
			t.Errorf("%q: %q", text, why)
		}
	}
}

// TestCreatedMadeAgain: another device has memory without an address, with its content, whether it
// is mapped or not, and for whom.
func TestCreatedMadeAgain(t *testing.T) {
	const size, base = 2 * gpubackend.Granularity, 0x440000000000
	first := newDevice(t, Options{})
	mapped, r := first.CreateMemory(size, 0, 0)
	must(t, "create", r)
	hidden, r := first.CreateMemory(size, 0, 0)
	must(t, "create", r)
	must(t, "reserve", first.Reserve(base, 2*size))
	for _, m := range []gpubackend.Memory{mapped, hidden} {
		must(t, "map", first.MapMemory(base, size, m))
		must(t, "protect", first.Protect(base, size, 0, gpubackend.AccessReadWrite))
		copy(cmem.At(base+size-16, 16), map[bool]string{true: "what is mapped..",
			false: "what isn't now.."}[m == mapped])
		must(t, "unmap", first.UnmapMemory(base, size))
	}
	must(t, "map", first.MapMemory(base, size, mapped)) // nobody has access
	if why := first.Unsavable(); why != "" {
		t.Fatal(why)
	}
	var layout bytes.Buffer
	if err := first.SaveLayout(&layout); err != nil {
		t.Fatal(err)
	}
	pieces := first.Pieces()
	image := make([]byte, gpubackend.PieceBytes(pieces))
	must(t, "copy out", first.SavePieces(pieces, image))
	first.EndCopies()
	first.memoryRoom.Close()
	must(t, "unreserve", first.Unreserve(base, 2*size))

	d := openDevice(t, Options{}, &layout)
	must(t, "reserve", d.Reserve(base, 2*size))
	for i, m := range []gpubackend.Memory{mapped, hidden} {
		must(t, "take", d.TakeMemory(gpubackend.CreatedMemory{Memory: m, Bytes: size}))
		must(t, "map", d.MapMemory(base+uint64(i)*size, size, m))
	}
	if err := d.LayoutRestored(); err != nil {
		t.Fatal(err)
	}
	must(t, "copy in", d.LoadPieces(pieces, image))
	d.EndCopies()
	must(t, "protect", d.Protect(base, size, 0, gpubackend.AccessReadWrite))
	must(t, "protect", d.Protect(base+size, size, 0, gpubackend.AccessReadWrite))
	for at, want := range map[uint64]string{base + size - 16: "what is mapped..",
		base + 2*size - 16: "what isn't now.."} {
		if text := string(cmem.At(at, 16)); text != want {
			t.Errorf("at %#x is %q, want %q", at, text, want)
		}
	}
	for i, m := range []gpubackend.Memory{mapped, hidden} {
		must(t, "unmap", d.UnmapMemory(base+uint64(i)*size, size))
		must(t, "release", d.ReleaseMemory(m))
	}
	must(t, "unreserve", d.Unreserve(base, 2*size))
}
