// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// onLibrary is a VM whose program uses a driver's library: the fake one.
func onLibrary(t *testing.T) (s *suspended, workers *processes) {
	t.Helper()
	page := newLedger(t)
	workers = &processes{library: drivertest.Build(t)}
	v := newVMOf(t, Config{Spawn: workers, Ledger: page, Timeouts: patient}, roomy)
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
// again, here and where the VM was moved to. There the library must reach the guest's own pages,
// not those that stood in for them.
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

// TestNotSavedByLibrary: a VM isn't saved while a program has what the library places by itself.
// The error says what that is, and the program goes on.
func TestNotSavedByLibrary(t *testing.T) {
	s, _ := onLibrary(t)
	s.allocate(apart)
	image, size := s.text(0, plainPTX+".global .u32 counter;\n")
	m := s.do(gpubackend.OpModuleLoadData, image, size, noBuffer, 0, noBuffer, 0, noBuffer, 0)
	s.mustTell(`its code has variables, such as "counter"`)
	s.mustNotSave(nil, `its code has variables, such as "counter"`)
	s.do(gpubackend.OpModuleUnload, m)
	debug := strings.Replace(plainPTX, "sm_75", "sm_75, debug", 1)
	image, size = s.text(0, debug+".func f() { .reg .u64 a; mov.u64 a, empty; }")
	m = s.do(gpubackend.OpModuleLoadData, image, size, noBuffer, 0, noBuffer, 0, noBuffer, 0)
	s.mustTell(`its code has addresses of functions, such as "empty"`)
	s.mustNotSave(nil, `its code has addresses of functions, such as "empty"`)
	s.do(gpubackend.OpModuleUnload, m)
	g := s.do(gpubackend.OpGraphCreate, 0)
	s.do(gpubackend.OpGraphConditionalHandle, g, 0, 0)
	s.mustTell("graphs")
	s.mustNotSave(nil, "graphs")
	s.do(gpubackend.OpGraphDestroy, g)
	s.mustTell("")
	s.resumeFrom(s.saveTo())
	s.mustHold()
}

// mustTell fails unless the VM's owner is told, before anybody tries to save it, why the program
// can't be saved; "": it can.
func (s *suspended) mustTell(why string) {
	s.t.Helper()
	err := s.dev.saving.Movable()
	if why == "" && err != nil || why != "" &&
		(err == nil || !strings.Contains(err.Error(), "(pid 9): ") ||
			!strings.Contains(err.Error(), why)) {
		s.t.Errorf("it is told %v, want %q", err, why)
	}
}

// put has the program write a word, and get reads one.
func (s *suspended) put(at uint64, word uint32) {
	s.t.Helper()
	s.guest.Write(s.arena+wire.Bulk, binary.LittleEndian.AppendUint32(nil, word))
	s.do(gpubackend.OpCopyHtoD, at, inBulk, 4, 4, 0, 0)
}

func (s *suspended) get(at uint64) uint32 {
	s.t.Helper()
	s.guest.Write(s.arena+wire.Bulk, make([]byte, 4))
	s.do(gpubackend.OpCopyDtoH, at, inBulk, 4, 4, 0, 0)
	return binary.LittleEndian.Uint32(s.guest.Read(s.arena+wire.Bulk, 4))
}

// TestSuspendedByLibrary: memory of a program that uses a driver's library is moved out and in
// while the program uses what the library keeps: a variable of code, an executable graph that names
// the memory, and pinned memory.
func TestSuspendedByLibrary(t *testing.T) {
	s, _ := onLibrary(t)
	s.allocate(5 << 20)
	from, to := s.do(gpubackend.OpMemAlloc, 3<<20), s.do(gpubackend.OpMemAlloc, 3<<20)
	image, size := s.text(0, plainPTX+".global .u32 counter;\n")
	m := s.do(gpubackend.OpModuleLoadData, image, size, noBuffer, 0, noBuffer, 0, noBuffer, 0)
	name, size := s.text(0, "counter")
	counter := s.do(gpubackend.OpModuleGetGlobal, m, name, size)

	stream := s.do(gpubackend.OpStreamCreateWithPriority, 1, 0)
	s.do(gpubackend.OpStreamBeginCapture, stream, 2)
	s.do(gpubackend.OpMemcpyDtoDAsync, to, from, 4, stream)
	graph := s.do(gpubackend.OpStreamEndCapture, stream)
	exec := s.do(gpubackend.OpGraphInstantiateWithFlags, graph, 0)
	page := s.pin()

	s.put(from, 99)
	s.do(gpubackend.OpGraphLaunch, exec, stream)
	s.do(gpubackend.OpStreamSynchronize, stream)
	if n := s.get(to); n != 99 {
		t.Fatalf("the graph has copied %d", n)
	}
	for n := range uint32(5) {
		s.put(from, 100+n)
		s.put(counter, 200+n)
		before := inLedger(s.page)
		moved := s.mustSuspend()
		if moved.Bytes < 11<<20 || inLedger(s.page) != before-moved.Bytes {
			t.Fatalf("%+v moved of %d bytes, %d stay", moved, before, inLedger(s.page))
		}
		s.mustResume()
		s.do(gpubackend.OpGraphLaunch, exec, stream)
		s.do(gpubackend.OpStreamSynchronize, stream)
		if a, b := s.get(to), s.get(counter); a != 100+n || b != 200+n {
			t.Fatalf("round %d: the graph has copied %d, the variable has %d", n, a, b)
		}
		s.mustHold()
		s.mustReach(page)
		s.mustNotSave(nil, "its code has variables")
	}
}

// TestGraphsOfPinnedMemoryMove: a graph that copies pinned memory, and an executable one, do so
// from the guest's own pages after the VM was moved. The library made them when other pages stood
// in for those.
func TestGraphsOfPinnedMemoryMove(t *testing.T) {
	s, workers := onLibrary(t)
	s.allocate(apart)
	to := s.do(gpubackend.OpMemAlloc, 3<<20)
	page := s.pin()
	stream := s.do(gpubackend.OpStreamCreateWithPriority, 1, 0)
	s.do(gpubackend.OpStreamBeginCapture, stream, 2)
	s.do(gpubackend.OpMemcpyDtoDAsync, to, counterAddress, 4, stream)
	graph := s.do(gpubackend.OpStreamEndCapture, stream)
	execs := []uint64{s.do(gpubackend.OpGraphInstantiateWithFlags, graph, 0)}
	for n := range uint32(3) {
		execs = append(execs, s.do(gpubackend.OpGraphInstantiateWithFlags, graph, 0))
		for i, exec := range execs {
			word := 100*n + uint32(i)
			s.guest.Write(page, binary.LittleEndian.AppendUint32(nil, word))
			s.do(gpubackend.OpGraphLaunch, exec, stream)
			s.do(gpubackend.OpStreamSynchronize, stream)
			if got := s.get(to); got != word {
				t.Fatalf("round %d: graph %d has copied %d, not %d", n, i, got, word)
			}
		}
		s.front.Stop(s.queues...)
		s.moveTo(Config{Spawn: workers}, s.saveState(), roomy)
		s.mustHold()
	}
}
