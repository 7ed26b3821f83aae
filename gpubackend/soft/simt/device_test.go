// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/kernelheap"
	"github.com/paracuda/paracuda/gpubackend/soft/loadstore"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// device is the memory of a GPU for tests: one mapping, cut up from its start.
type device struct {
	tb   testing.TB
	mem  []byte
	base uint64
	used uint64
	prog *decoded.Program

	stdout, assert bytes.Buffer
	heap           *kernelheap.Heap
	stats          Stats
}

func newDevice(tb testing.TB, size int) *device {
	tb.Helper()
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = syscall.Munmap(mem) })
	d := &device{tb: tb, mem: mem, base: uint64(loadstore.BytesOf(mem)), used: 4096}
	d.heap = kernelheap.New(d.alloc(1<<20), 1<<20, nil)
	return d
}

func (d *device) Lookup(addr uint64) (base, end uint64, writable, ok bool) {
	// The first page is never valid.
	base, end = d.base+4096, d.base+uint64(len(d.mem))
	return base, end, true, addr >= base && addr < end
}

func (d *device) alloc(size int) uint64 {
	addr := d.base + d.used
	d.used += uint64(size+255) &^ 255
	if d.used > uint64(len(d.mem)) {
		d.tb.Fatal("device memory used up")
	}
	return addr
}

func (d *device) bytes(addr uint64, size int) []byte {
	return d.mem[addr-d.base:][:size]
}

var modules sync.Map

func parseFile(tb testing.TB, file string) *ptx.Module {
	tb.Helper()
	if m, ok := modules.Load(file); ok {
		return m.(*ptx.Module)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return parseText(tb, file, text)
}

func parseText(tb testing.TB, file string, text []byte) *ptx.Module {
	tb.Helper()
	m, err := ptx.Parse(text, nil)
	if err != nil {
		tb.Fatal(err)
	}
	modules.Store(file, m)
	return m
}

// load loads a module and gives its globals memory.
func (d *device) load(m *ptx.Module) {
	d.tb.Helper()
	prog, err := decoded.Load(m, nil)
	if err != nil {
		d.tb.Fatal(err)
	}
	places := make(map[string]uint64)
	for _, g := range prog.Globals() {
		places[g.Name] = d.alloc(int(g.Size) + 1)
	}
	if err := prog.Link(func(name string) (uint64, bool) {
		addr, ok := places[name]
		return addr, ok
	}); err != nil {
		d.tb.Fatal(err)
	}
	for _, g := range prog.Globals() {
		if err := prog.Fill(&g, d.bytes(places[g.Name], int(g.Size))); err != nil {
			d.tb.Fatal(err)
		}
	}
	d.prog = prog
}

// params packs values by the kernel's layout.
func (d *device) params(k *decoded.Kernel, args []any) []byte {
	d.tb.Helper()
	if len(args) != len(k.Params) {
		d.tb.Fatalf("%s: %d arguments, %d parameters", k.Name, len(args), len(k.Params))
	}
	out := make([]byte, k.ParamSize)
	for i, arg := range args {
		b, err := binary.Append(nil, binary.LittleEndian, arg)
		if err != nil || len(b) != k.Params[i].Size {
			d.tb.Fatalf("%s: argument %d has %d bytes, want %d (%v)", k.Name, i, len(b),
				k.Params[i].Size, err)
		}
		copy(out[k.Params[i].Offset:], b)
	}
	return out
}

// launch describes a launch of the program's kernel name.
func (d *device) launch(name string, grid, block Dim, args ...any) *Launch {
	d.tb.Helper()
	k := d.prog.Kernel(name)
	if k == nil {
		d.tb.Fatalf("no kernel %s", name)
	}
	return &Launch{Kernel: k, Grid: grid, Block: block, Params: d.params(k, args), Memory: d,
		Heap:   d.heap,
		Stdout: &d.stdout, Assert: &d.assert, Stats: &d.stats}
}

// run launches and expects success.
func (d *device) run(name string, grid, block int, args ...any) {
	d.tb.Helper()
	if err := d.launch(name, linear(grid), linear(block),
		args...).Run(context.Background()); err != nil {
		d.tb.Fatal(err)
	}
}

func linear(n int) Dim { return Dim{uint32(n), 1, 1} }

// newTest gives a device with a compiled program of testdata loaded.
func newTest(tb testing.TB, file string) *device {
	tb.Helper()
	d := newDevice(tb, 64<<20)
	d.load(parseFile(tb, "testdata/"+file+".ptx"))
	return d
}

// put copies a slice of numbers into new device memory.
func put[T any](d *device, v []T) uint64 {
	d.tb.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		d.tb.Fatal(err)
	}
	addr := d.alloc(len(b))
	copy(d.bytes(addr, len(b)), b)
	return addr
}

// get reads n numbers from device memory.
func get[T any](d *device, addr uint64, n int) []T {
	d.tb.Helper()
	v := make([]T, n)
	size := binary.Size(v)
	if _, err := binary.Decode(d.bytes(addr, size), binary.LittleEndian, v); err != nil {
		d.tb.Fatal(err)
	}
	return v
}

func randomFloats(n int, low, high float64) []float32 {
	r := rand.New(rand.NewSource(int64(n)))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(low + (high-low)*r.Float64())
	}
	return v
}

func randomInts(n, limit int) []int32 {
	r := rand.New(rand.NewSource(int64(n)))
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(r.Intn(limit))
	}
	return v
}

// equal compares slices and reports the first few differences.
func equal[T comparable](tb testing.TB, what string, got, want []T) {
	tb.Helper()
	bad := 0
	for i := range want {
		if got[i] != want[i] {
			if bad++; bad <= 5 {
				tb.Errorf("%s[%d] = %v, want %v", what, i, got[i], want[i])
			}
		}
	}
	if bad > 5 {
		tb.Errorf("%s: %d differences", what, bad)
	}
}

// ulps is the distance of got from the exact value want in units of float32's
// last place.
func ulps(got float32, want float64) float64 {
	near := float32(want)
	if math.IsInf(float64(near), 0) || near != near {
		if got == near || got != got && near != near {
			return 0
		}
		return math.Inf(1)
	}
	unit := float64(math.Nextafter32(float32(math.Abs(float64(near))),
		math.MaxFloat32)) - math.Abs(float64(near))
	return math.Abs(float64(got)-want) / unit
}
