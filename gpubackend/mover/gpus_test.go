// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"io"
	"runtime"
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

// TestGPUOfItsOwn: memory is copied by the GPU that has it, which has a context from then on.
func TestGPUOfItsOwn(t *testing.T) {
	runtime.LockOSThread() // to which a context is current
	defer runtime.UnlockOSThread()
	t.Setenv("FAKE_DEVICES", "2")
	log := logrus.New()
	log.SetOutput(io.Discard)
	c := Config{Library: drivertest.Build(t), Log: logrus.NewEntry(log),
		Threshold: DefaultThreshold, Registered: DefaultRegistered}
	accounts := ledger.NewProcess()
	e, err := newCUDAEngine(&c, &handover.Policy{}, accounts)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	contexts := func(gpu int) uint64 { return accounts.Account(e.ids[gpu]).Held(ledger.Contexts) }
	if e.gpus[1] != nil || contexts(0) == 0 || contexts(1) != 0 {
		t.Errorf("from the start: GPUs %v, contexts %d and %d", e.gpus, contexts(0), contexts(1))
	}
	for _, test := range []struct {
		name string
		gpu  int
	}{{"gpu0", 0}, {"gpu1", 1}, {"gpu0", 0}, {"gpu1", 1}} {
		_, fd := ofGPU(t, test.name, 2<<20)
		s, err := e.attach(fd, 0, 2<<20)
		if err != nil {
			t.Fatal(err)
		}
		if l := s.(cudaStaging).on; l == nil || l != e.gpus[test.gpu] ||
			e.gpus[0] == e.gpus[1] {
			t.Errorf("%s is copied by %p of %v", test.name, l, e.gpus)
		}
		e.detach(s)
	}
	if contexts(1) != contexts(0) {
		t.Errorf("contexts: %d and %d", contexts(0), contexts(1))
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
