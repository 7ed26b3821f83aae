// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// ofGPU is memory that the fake driver takes, by its name, for that of a GPU.
func ofGPU(t *testing.T, name string, n int) (mem []byte, fd int) {
	t.Helper()
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err == nil {
		t.Cleanup(func() { unix.Close(fd) })
		err = unix.Ftruncate(fd, int64(n))
	}
	if err == nil {
		mem, err = unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem, fd
}

// newTestEngine is an engine on the fake driver, with so many GPUs. The test's goroutine stays on
// its thread, to which contexts are current.
func newTestEngine(t *testing.T, gpus int) (e *cudaEngine, library string) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	t.Setenv("FAKE_DEVICES", strconv.Itoa(gpus))
	log := logrus.New()
	log.SetOutput(io.Discard)
	library = drivertest.Build(t)
	c := Config{Library: library, Log: logrus.NewEntry(log),
		Threshold: DefaultThreshold, Registered: DefaultRegistered}
	e, err := newCUDAEngine(&c, &handover.Policy{}, ledger.NewProcess())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	return e, library
}

// contexts is what the contexts of two GPUs count for.
func contexts(e *cudaEngine) (first, second uint64) {
	held := func(gpu int) uint64 { return e.accounts.Account(e.ids[gpu]).Held(ledger.Contexts) }
	return held(0), held(1)
}

// TestGPUOfItsOwn: memory is copied by the GPU that has it, which has a context from then on, and
// none before.
func TestGPUOfItsOwn(t *testing.T) {
	for _, order := range [][]int{{0, 1, 0, 1}, {1, 0, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			e, _ := newTestEngine(t, 2)
			if a, b := contexts(e); a != 0 || b != 0 || e.working() != nil {
				t.Errorf("from the start: GPUs %v, contexts %d and %d", e.gpus, a, b)
			}
			used := map[int]bool{}
			for _, gpu := range order {
				_, fd := ofGPU(t, fmt.Sprint("gpu", gpu), 2<<20)
				s, err := e.attach(fd, 0, 2<<20)
				if err != nil {
					t.Fatal(err)
				}
				if l := s.(cudaStaging).on; l == nil || l != e.gpus[gpu] || l.number != gpu {
					t.Errorf("memory of GPU %d is copied by %+v", gpu, l)
				}
				e.detach(s)
				used[gpu] = true
				if a, b := contexts(e); (a != 0) != used[0] || (b != 0) != used[1] {
					t.Errorf("GPUs %v were used: contexts %d and %d", used, a, b)
				}
			}
			if a, b := contexts(e); a != b {
				t.Errorf("contexts: %d and %d", a, b)
			}
		})
	}
}

// TestTheOnlyGPU is opened from the start: the mover begins with its first copy.
func TestTheOnlyGPU(t *testing.T) {
	e, _ := newTestEngine(t, 1)
	if e.working() == nil || e.accounts.Account(e.ids[0]).Held(ledger.Contexts) == 0 {
		t.Errorf("GPUs %v", e.gpus)
	}
}

// TestBothGPUs: copies to and from both GPUs are in flight at the same time.
func TestBothGPUs(t *testing.T) {
	t.Setenv("FAKE_DEVICES", "2")
	const n, each = 4 << 20, 64 << 10
	mem, region := oneRegion(t, n)
	c := startMover(t, "cuda", Config{Library: drivertest.Build(t)}, region).client()
	fill(mem, 3)
	original := bytes.Clone(mem)
	var ids [2]uint32
	var there [2][]byte
	for gpu, name := range []string{"gpu0", "gpu1"} {
		var fd int
		there[gpu], fd = ofGPU(t, name, n)
		var err error
		if ids[gpu], err = c.Attach(fd, 0, n); err != nil {
			t.Fatal(err)
		}
	}
	const copies = 32
	for _, toDevice := range []bool{true, false} {
		for i := range uint64(copies) {
			if err := c.Start(&moves.Move{ID: i, Staging: ids[i%2], Offset: i * each,
				ToDevice: toDevice,
				Runs:     []wire.Run{{Address: guestBase + i*each, Bytes: each}}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range finish(t, c, copies) {
			if m.Err != nil {
				t.Errorf("copy %d: %v", m.ID, m.Err)
			}
		}
		for i := range copies {
			at := i * each
			if !bytes.Equal(there[i%2][at:at+each], original[at:at+each]) ||
				!bytes.Equal(there[1-i%2][at:at+each], make([]byte, each)) {
				t.Fatalf("to device %t: copy %d is wrong there", toDevice, i)
			}
		}
		if !toDevice && !bytes.Equal(mem, original) {
			t.Error("what came back is wrong")
		}
		clear(mem[:copies*each])
	}
}
