// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/soft"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// TestCUDAEngine runs the CUDA engine on the fake driver: each way that a span can go, with
// registrations that succeed and that fail. The fake takes any file for exported memory.
func TestCUDAEngine(t *testing.T) {
	library, old := drivertest.Build(t), drivertest.Build(t, "-DNO_BATCHES")
	for _, test := range []struct {
		name   string
		config Config
		fail   bool
	}{
		{"kernel", Config{Library: library, Threshold: 1 << 30, Registered: 1 << 20}, false},
		{"copy engines", Config{Library: library, Threshold: 1, Registered: 64 << 10}, false},
		{"copy engines, one by one", Config{Library: old, Threshold: 1, Registered: 64 << 10},
			false},
		{"both", Config{Library: library, Threshold: 20 << 10, Registered: 64 << 10}, false},
		{"bounced", Config{Library: library, Threshold: 20 << 10, Registered: 64 << 10}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.fail {
				t.Setenv("FAKE_FAIL_REGISTER", "1")
			}
			tryCUDAEngine(t, test.config)
		})
	}
}

func tryCUDAEngine(t *testing.T, config Config) {
	const n = 4 << 20
	mem, regions := guest(t, n)
	h := startMover(t, "cuda", config, regions...)
	c := h.client()
	id, staging, _ := attach(t, c, n)
	r := rand.New(rand.NewPCG(8, 9))
	fill(mem, 1)
	original := bytes.Clone(mem)
	for _, most := range []uint64{1, 100, 30_000, 300_000} {
		var runs []wire.Run
		total := uint64(0)
		for at := r.Uint64N(50); at+most < n && total+most < n; {
			length := 1 + r.Uint64N(most)
			runs = append(runs, wire.Run{Address: guestBase + at, Bytes: length})
			total += length
			at += length + r.Uint64N(n/200)
		}
		offset := r.Uint64N(n - total)
		if err := move(t, c,
			&moves.Move{Staging: id, Offset: offset, ToDevice: true, Runs: runs}); err != nil {
			t.Fatalf("runs up to %d: %v", most, err)
		}
		at := offset
		for _, run := range runs {
			if !bytes.Equal(staging[at:at+run.Bytes], view(original, run.Address, run.Bytes)) {
				t.Fatalf("runs up to %d: staging memory differs", most)
			}
			at += run.Bytes
		}
		if err := move(t, c, &moves.Move{Staging: id, Offset: offset, Runs: runs}); err != nil {
			t.Fatalf("runs up to %d, back: %v", most, err)
		}
		if !bytes.Equal(mem, original) {
			t.Fatalf("runs up to %d: guest memory differs", most)
		}
	}
	h.sendMemory(handover.KindMemory, regions[:1])
	h.expect(handover.KindDone)
	err := move(t, c,
		&moves.Move{Staging: id, Runs: []wire.Run{{Address: regions[1].GuestAddr, Bytes: 1}}})
	if !errors.Is(err, ErrRange) {
		t.Errorf("memory that was removed: error %v", err)
	}
}

func TestCUDAEngineManyRuns(t *testing.T) {
	const n = 4 << 20
	_, regions := guest(t, n)
	c := startMover(t, "cuda", Config{Library: drivertest.Build(t)}, regions...).client()
	id, _, _ := attach(t, c, n)
	var runs []wire.Run
	for i := range uint64(2*maxRuns + 5) {
		runs = append(runs, wire.Run{Address: guestBase + i*300, Bytes: 200})
	}
	const copies = 60
	for i := range uint64(copies) {
		if err := c.Start(&moves.Move{ID: i, Staging: id, ToDevice: i%3 != 0,
			Runs: runs}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range finish(t, c, copies) {
		if m.Err != nil {
			t.Errorf("copy %d: %v", m.ID, m.Err)
		}
	}
}

func TestCUDAEngineTruncation(t *testing.T) {
	mem, whole := oneRegion(t, 1<<20)
	_, fd := mapped(t, 1<<20, 0)
	h := startMover(t, "cuda", Config{Library: drivertest.Build(t)}, whole,
		guestmem.Region{GuestAddr: 2 * guestBase, Size: 1 << 20, FD: fd})
	c := h.client()
	id, staging, _ := attach(t, c, 2<<20)
	if err := unix.Ftruncate(fd, 4096); err != nil {
		t.Fatal(err)
	}
	for _, toDevice := range []bool{true, false} {
		m := &moves.Move{Staging: id, ToDevice: toDevice,
			Runs: []wire.Run{{Address: 2 * guestBase, Bytes: 8192}}}
		if err := move(t, c, m); !errors.Is(err, ErrFault) {
			t.Errorf("to device %t: error %v", toDevice, err)
		}
	}
	fill(mem[:4096], 4)
	if err := move(t, c,
		&moves.Move{Staging: id, ToDevice: true,
			Runs: []wire.Run{{Address: guestBase, Bytes: 4096}}}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(staging[:4096], mem[:4096]) {
		t.Error("bytes differ")
	}
}

// TestKernel executes the copying kernel on the software GPU, for all alignments, and for lengths
// around the bounds of its paths.
func TestKernel(t *testing.T) {
	d := soft.New(soft.Options{Memory: 256 << 20})
	defer d.Close()
	must := func(what string, r gpubackend.Result) {
		t.Helper()
		if r != gpubackend.Success {
			t.Fatalf("%s: result %d", what, r)
		}
	}
	_, r := d.Open(nil)
	must("open", r)
	ctx, r := d.DevicePrimaryCtxRetain(0)
	must("retain", r)
	must("set current", d.SetCurrent(ctx))
	module, _, _, r := d.ModuleLoadData(append(bytes.Clone(copyRuns), 0), nil, nil, nil)
	must("load", r)
	f, r := d.ModuleGetFunction(module, "copy_runs")
	must("function", r)

	const n = 1 << 20
	src, r := d.MemAlloc(n)
	must("allocate", r)
	dst, r := d.MemAlloc(n)
	must("allocate", r)
	in, expected := make([]byte, n), make([]byte, n)
	fill(in, 1)
	var list []byte
	at := uint64(0)
	count := uint64(0)
	add := func(toOffset, fromOffset, length uint64) {
		to, from := at+toOffset, at+fromOffset
		list = binary.LittleEndian.AppendUint64(list, dst+to)
		list = binary.LittleEndian.AppendUint64(list, src+from)
		list = binary.LittleEndian.AppendUint64(list, length)
		list = binary.LittleEndian.AppendUint64(list, 0)
		copy(expected[to:to+length], in[from:])
		at += (length + 64) &^ 15
		count++
	}
	for _, length := range []uint64{0, 1, 3, 15, 16, 17, 31, 33, 100, 511, 600, 4095, 4096, 4097,
		5000} {
		for offset := range uint64(16) {
			add(offset, offset, length)
			add(offset, 5, length)
			add(0, offset, length)
		}
	}
	add(3, n-at-100, 100) // to the end of the memory
	add(3, 0, 20000)
	where, r := d.MemAlloc(uint64(len(list)))
	must("allocate", r)
	must("copy in", d.CopyIn(src, in, 0))
	must("copy in", d.CopyIn(where, list, 0))
	must("clear", d.MemsetD8Async(dst, 0, n, 0))
	parameters := binary.LittleEndian.AppendUint64(nil, where)
	parameters = binary.LittleEndian.AppendUint64(parameters, count)
	must("launch", d.Launch(&gpubackend.Launch{
		Function: f, Grid: [3]uint32{7, 1, 1}, Block: [3]uint32{threads, 1, 1},
		Parameters: parameters,
	}))
	for r = d.ContextQuery(); r == gpubackend.NotReady; {
		r = d.ContextQuery()
	}
	must("run", r)
	out := make([]byte, n)
	must("copy out", d.CopyOut(out, dst))
	for i := range out {
		if out[i] != expected[i] {
			t.Fatalf("byte %d is %#x, want %#x", i, out[i], expected[i])
		}
	}
}
