// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/copies"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// page is memory of this process that the driver isn't told of.
func page(tb testing.TB) []byte {
	tb.Helper()
	b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

// register tells of a page, for as long as the test goes.
func register(tb testing.TB, d *Device, b []byte, writable bool) {
	tb.Helper()
	must(tb, "register", d.HostRegister(cmem.AddressOf(b), 4096, writable))
	tb.Cleanup(func() { d.HostUnregister(cmem.AddressOf(b), 4096) })
}

// touches is every way to have a range read, and every way to have one written.
func touches(
	d *Device, device uint64,
) (reads, writes map[string]func(addr, n uint64) gpubackend.Result) {
	box := func(dst, src, n uint64) gpubackend.Box {
		return gpubackend.Box{Dst: dst, DstPitch: n / 4, Src: src, SrcPitch: n / 4, Width: n / 4,
			Height: 4, Depth: 1}
	}
	cube := func(dst, src, n uint64) gpubackend.Box {
		return gpubackend.Box{
			Dst: dst, DstPitch: n / 4, DstSlice: n / 2, Src: src, SrcPitch: n / 4, SrcSlice: n / 2,
			Width: n / 4, Height: 2, Depth: 2,
		}
	}
	stream, _ := d.StreamCreateWithPriority(cudaabi.StreamNonBlocking, 0)
	copyBatch := func(dst, src, n uint64) gpubackend.Result {
		b := copies.NewBatch(2)
		defer b.Close()
		b.Add(dst, src, n/2)
		b.Add(dst+n/2, src+n/2, n/2)
		return d.CopyBatch(b, stream)
	}
	copyBox := func(b gpubackend.Box) gpubackend.Result { return d.CopyBox(&b, 0) }
	graph, _ := d.GraphCreate(0)
	node := func(n gpubackend.Node) gpubackend.Result {
		_, _, _, r := d.GraphAddNode(graph, nil, nil, &n)
		return r
	}
	copyNode := func(b gpubackend.Box) gpubackend.Result {
		return node(gpubackend.Node{Type: gpubackend.NodeMemcpy, Copy: b})
	}
	array := func(side func(cudaabi.Memcpy3D) cudaabi.Memcpy3DSide, addr uint64) gpubackend.Result {
		m := make(cudaabi.Memcpy3D, cudaabi.Memcpy3DSize)
		side(m).SetMemoryType(cudaabi.MemoryTypeDevice)
		side(m).SetDevice(addr)
		return d.CopyArray(m, 0)
	}
	reads = map[string]func(addr, n uint64) gpubackend.Result{
		"Copy":      func(a, n uint64) gpubackend.Result { return d.Copy(device, a, n, 0) },
		"CopyBatch": func(a, n uint64) gpubackend.Result { return copyBatch(device, a, n) },
		"MemcpyDtoDAsync": func(a,
			n uint64) gpubackend.Result {
			return d.MemcpyDtoDAsync(device, a, n, 0)
		},
		"CopyOut":     func(a, n uint64) gpubackend.Result { return d.CopyOut(make([]byte, n), a) },
		"CopyBox":     func(a, n uint64) gpubackend.Result { return copyBox(box(device, a, n)) },
		"CopyBox, 3D": func(a, n uint64) gpubackend.Result { return copyBox(cube(device, a, n)) },
		"memcpy node": func(a, n uint64) gpubackend.Result { return copyNode(cube(device, a, n)) },
		"CopyArray": func(a, _ uint64) gpubackend.Result {
			return array(cudaabi.Memcpy3D.Src,
				a)
		},
	}
	writes = map[string]func(addr, n uint64) gpubackend.Result{
		"Copy":      func(a, n uint64) gpubackend.Result { return d.Copy(a, device, n, 0) },
		"CopyBatch": func(a, n uint64) gpubackend.Result { return copyBatch(a, device, n) },
		"MemcpyDtoDAsync": func(a,
			n uint64) gpubackend.Result {
			return d.MemcpyDtoDAsync(a, device, n, 0)
		},
		"CopyIn": func(a,
			n uint64) gpubackend.Result {
			return d.CopyIn(a, make([]byte, n), 0)
		},
		"CopyBox":     func(a, n uint64) gpubackend.Result { return copyBox(box(a, device, n)) },
		"CopyBox, 3D": func(a, n uint64) gpubackend.Result { return copyBox(cube(a, device, n)) },
		"memcpy node": func(a, n uint64) gpubackend.Result { return copyNode(cube(a, device, n)) },
		"CopyArray": func(a, _ uint64) gpubackend.Result {
			return array(cudaabi.Memcpy3D.Dst,
				a)
		},
		"MemsetD8Async": func(a,
			n uint64) gpubackend.Result {
			return d.MemsetD8Async(a, 0, n, 0)
		},
		"MemsetD16Async": func(a,
			n uint64) gpubackend.Result {
			return d.MemsetD16Async(a, 0, n/2, 0)
		},
		"MemsetD32Async": func(a,
			n uint64) gpubackend.Result {
			return d.MemsetD32Async(a, 0, n/4, 0)
		},
		"MemsetD2D8Async": func(a,
			n uint64) gpubackend.Result {
			return d.MemsetD2D8Async(a, n/4, 0, n/4, 4, 0)
		},
		"MemsetD2D16Async": func(a,
			n uint64) gpubackend.Result {
			return d.MemsetD2D16Async(a, n/4, 0, n/8, 4, 0)
		},
		"MemsetD2D32Async": func(a,
			n uint64) gpubackend.Result {
			return d.MemsetD2D32Async(a, n/4, 0, n/16, 4, 0)
		},
		"memset node": func(a, n uint64) gpubackend.Result {
			return node(gpubackend.Node{Type: gpubackend.NodeMemset,
				Fill: gpubackend.Fill{Dst: a, Pitch: n / 4, Element: 4, Width: n / 16, Height: 4}})
		},
	}
	return reads, writes
}

// TestOwnMemoryIsOutOfReach names memory of this process that isn't the guest's.
func TestOwnMemoryIsOutOfReach(t *testing.T) {
	const n = 1024
	d := newDevice(t, Options{})
	device := alloc(t, d, n)
	own, shown, read := page(t), page(t), page(t)
	register(t, d, shown, true)
	register(t, d, read, false)
	fill := bytes.Repeat([]byte{7}, 4096)
	copy(own, fill)
	reads, writes := touches(d, device)
	wrong := func(kind, name string, do func(addr, n uint64) gpubackend.Result, addr, n uint64) {
		t.Run(kind+" by "+name,
			func(t *testing.T) { want(t, name, do(addr, n), gpubackend.InvalidValue) })
	}
	for name, do := range reads {
		wrong("own memory", name, do, cmem.AddressOf(own), n)
		wrong("no memory", name, do, 8, n)
		if name != "CopyArray" { // the driver knows how much it takes
			wrong("beyond the end", name, do, cmem.AddressOf(shown)+4096-n+16, n)
		}
		if name != "CopyArray" && name != "CopyOut" { // whose slice has the size
			wrong("all addresses", name, do, cmem.AddressOf(shown), ^uint64(0)&^63)
		}
	}
	for name, do := range writes {
		wrong("own memory", name, do, cmem.AddressOf(own), n)
		wrong("memory to read", name, do, cmem.AddressOf(read), n)
		if name != "CopyArray" {
			wrong("beyond the end", name, do, cmem.AddressOf(shown)+4096-n+16, n)
		}
	}
	const least = 1<<30 + 1 // of which so many elements seem to be 4 bytes
	wraps := gpubackend.Node{Type: gpubackend.NodeMemset,
		Fill: gpubackend.Fill{Dst: device, Element: 4 + wrapping(least)<<32, Width: least,
			Height: 1}}
	graph, r := d.GraphCreate(0)
	must(t, "graph", r)
	if _, _, _, r := d.GraphAddNode(graph, nil, nil, &wraps); r != gpubackend.InvalidValue {
		t.Errorf("elements that wrap around: %d", r)
	}
	if !bytes.Equal(own, fill) {
		t.Error("it was written")
	}
}

// wrapping is k such that n*(4+k<<32) is 4 in 64 bits, for n of 1<<30 + 1.
func wrapping(n uint32) uint64 {
	inverse := n // of an odd number: three bits are right, and twice as many each time
	for range 4 {
		inverse *= 2 - n*inverse
	}
	return uint64(-inverse) // n*k is -1
}

// TestGuestsMemoryIsInReach copies between all that is the guest's.
func TestGuestsMemoryIsInReach(t *testing.T) {
	const n = 64
	d := newDevice(t, Options{})
	device := alloc(t, d, n)
	shown, read, ordinary := page(t), page(t), page(t)
	register(t, d, shown, true)
	register(t, d, read, false)
	must(t, "show", d.HostPageable(cmem.AddressOf(ordinary), 2048))
	must(t, "show", d.HostPageable(cmem.AddressOf(ordinary)+2048, 2048))
	m, _, _, r := d.ModuleLoadData([]byte(twoKernels), nil, nil, nil)
	must(t, "load", r)
	variable, _, r := d.ModuleGetGlobal(m, "table")
	must(t, "variable", r)
	for name, addr := range map[string]uint64{
		"device": device, "pinned": cmem.AddressOf(shown) + 4096 - n,
		"ordinary": cmem.AddressOf(ordinary) + 2048 - n/2, "variable": variable,
	} {
		const few = 48 // the variable has 56
		must(t, name+", write", d.Copy(addr, cmem.AddressOf(read), few, 0))
		must(t, name+", read", d.Copy(device, addr, few, 0))
	}
	must(t, "unregister", d.HostUnregister(cmem.AddressOf(shown), 4096))
	want(t, "after that", d.Copy(cmem.AddressOf(shown), device, n, 0), gpubackend.InvalidValue)
}

// TestGraphMemoryIsOfTheDevice copies to what the driver doesn't know before the graph runs.
func TestGraphMemoryIsOfTheDevice(t *testing.T) {
	d := newDevice(t, Options{})
	memory := page(t)
	d.ranges.OfGPUs.Put(copyable.Span{Base: cmem.AddressOf(memory), Bytes: 4096, Writable: true})
	shown := page(t)
	register(t, d, shown, true)
	before := drivertest.Count("cuMemcpyHtoDAsync_v2")
	must(t, "to it", d.Copy(cmem.AddressOf(memory), cmem.AddressOf(shown), 8, 0))
	if drivertest.Count("cuMemcpyHtoDAsync_v2") != before+1 {
		t.Error("the driver was left to find out what it is")
	}
}
