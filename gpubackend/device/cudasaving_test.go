// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
)

// onLibrary is a VM whose program uses a driver's library, which is a fake.
func onLibrary(t *testing.T) (s *suspended, workers *processes) {
	t.Helper()
	page := newLedger(t)
	workers = &processes{library: drivertest.Build(t)}
	v := newVMOf(t, Config{Spawn: workers, Ledger: page}, roomy)
	return suspendedVM(v, page), workers
}

// roomy is a setting with which there is memory for contexts.
const roomy = "soft-memory=4G"

const plainPTX = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry empty() {}\n"

// loadPlain loads code without variables.
func (s *suspended) loadPlain() (function uint64) {
	s.t.Helper()
	image, size := s.text(0, plainPTX)
	m := s.do(gpubackend.OpModuleLoadData, image, size, noBuffer, 0, noBuffer, 0, noBuffer, 0)
	name, size := s.text(0, "empty")
	return s.do(gpubackend.OpModuleGetFunction, m, name, size)
}

// TestSavedToAFileByLibrary: a program that uses a driver's library goes on from a file, again and
// again, here and where the VM was moved to.
func TestSavedToAFileByLibrary(t *testing.T) {
	s, workers := onLibrary(t)
	for _, size := range []uint64{4096, 100000, 5 << 20, 12 << 20} {
		s.allocate(size)
	}
	function := s.loadPlain()
	stream := s.do(gpubackend.OpStreamCreateWithPriority, 1, 0)
	from, to := s.do(gpubackend.OpEventCreate, 0), s.do(gpubackend.OpEventCreate, 0)
	s.do(gpubackend.OpEventRecordWithFlags, from, stream, 0)
	launch := func() {
		s.do(gpubackend.OpLaunchKernel, function, stream, 1|1<<32, 1|1<<32, 1|1<<32, 0, 0)
		s.do(gpubackend.OpStreamSynchronize, stream)
	}
	launch()
	s.do(gpubackend.OpEventRecordWithFlags, to, stream, 0)
	s.do(gpubackend.OpStreamSynchronize, stream)
	elapsed := s.do(gpubackend.OpEventElapsed, from, to)
	pool := s.do(gpubackend.OpPoolDefault, 0)
	pooled := s.do(gpubackend.OpMemAllocAsync, 1<<20, pool, stream)
	page := s.pin()
	for n := range 3 {
		s.resumeFrom(s.saveTo())
		s.mustHold()
		s.mustReach(page)
		launch()
		if got := s.do(gpubackend.OpEventElapsed, from, to); got != elapsed {
			t.Fatalf("round %d: %d ns between the events, it were %d", n, got, elapsed)
		}
		s.allocate(1 << 20)
		s.mustHold()
		s.front.Stop(s.queues...)
		s.moveTo(Config{Spawn: workers}, s.saveState(), roomy)
		s.mustHold()
		s.mustReach(page)
	}
	s.do(gpubackend.OpMemFreeAsync, pooled, stream)
	s.do(gpubackend.OpHostUnregister, 6)
	s.reap(1, 1)
	s.mustSuspend()
	s.mustResume()
	s.mustHold()
}

// TestNotSavedByLibrary: what the library places by itself is refused with the reason, and the
// program goes on.
func TestNotSavedByLibrary(t *testing.T) {
	s, _ := onLibrary(t)
	s.allocate(5 << 20)
	image, size := s.text(0, plainPTX+".global .u32 counter;\n")
	m := s.do(gpubackend.OpModuleLoadData, image, size, noBuffer, 0, noBuffer, 0, noBuffer, 0)
	s.mustNotSave(nil, `its code has variables, such as "counter"`)
	s.do(gpubackend.OpModuleUnload, m)
	g := s.do(gpubackend.OpGraphCreate, 0)
	s.mustNotSave(nil, "graphs")
	s.do(gpubackend.OpGraphDestroy, g)
	s.resumeFrom(s.saveTo())
	s.mustHold()
}
