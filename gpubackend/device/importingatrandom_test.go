// SPDX-License-Identifier: Apache-2.0

package device

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// atRandom is a VM whose program exports and imports memory of many sizes, by which it knows it.
type atRandom struct {
	importing *importing
	program   *suspended // importing's, as the VM is
	vm        *vm
	rounds    *rand.Rand
	handles   map[uint32]uint64 // how many bytes each names
	begun     map[uint64]uint64 // imports that aren't named yet, and how many bytes that is
	memory    map[uint64]uint64 // by its size
}

// export makes memory, and a handle of it.
func (r *atRandom) export() {
	r.vm.t.Helper()
	bytes := uint64(2 << 20)
	for r.memory[bytes] != 0 {
		bytes += 2 << 20
	}
	r.memory[bytes] = r.program.do(gpubackend.OpMemCreate, bytes, 0, 0)
	h := r.vm.exported(0, r.program.do(gpubackend.OpMemExportToShareableHandle, r.memory[bytes]))
	if r.handles[h] != 0 {
		r.vm.t.Fatalf("handle %d is given twice", h)
	}
	r.handles[h] = bytes
}

// release ends a handle, and what it names.
func (r *atRandom) release() {
	r.vm.t.Helper()
	h := r.some()
	r.vm.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlRelease, Number: h})
	r.program.do(gpubackend.OpMemRelease, r.memory[r.handles[h]])
	delete(r.memory, r.handles[h])
	delete(r.handles, h)
}

// some is one of the handles.
func (r *atRandom) some() uint32 {
	list := slices.Sorted(maps.Keys(r.handles))
	return list[r.rounds.IntN(len(list))]
}

// imports begins an import.
func (r *atRandom) imports() {
	r.vm.t.Helper()
	h := r.some()
	n := r.vm.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlImport, Number: h})
	if r.begun[uint64(n)] != 0 {
		r.vm.t.Fatalf("number %d is given twice", n)
	}
	r.begun[uint64(n)] = r.handles[h]
}

// names ends imports that have begun, in any order, and checks what each is of.
func (r *atRandom) names(most int) {
	r.vm.t.Helper()
	list := slices.Sorted(maps.Keys(r.begun))
	r.rounds.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, number := range list[:min(most, len(list))] {
		m := r.program.do(gpubackend.OpMemImportFromShareableHandle, number)
		if got := r.vm.word(1); got != r.begun[number] {
			r.vm.t.Fatalf("import %d is memory of %d bytes, want %d", number, got, r.begun[number])
		}
		r.program.do(gpubackend.OpMemRelease, m)
		delete(r.begun, number)
	}
}

// earlier puts the VM back to where it was some time ago.
func (r *atRandom) earlier() {
	r.vm.t.Helper()
	r.vm.front.Stop(r.vm.queues...)
	restore := r.program.snapshot()
	handles, begun, memory := maps.Clone(r.handles), maps.Clone(r.begun), maps.Clone(r.memory)
	r.vm.front.Start(r.vm.queues...)
	r.export()
	r.imports()
	r.names(len(r.begun))
	r.release()
	r.vm.front.Stop(r.vm.queues...)
	restore()
	r.handles, r.begun, r.memory = handles, begun, memory
	r.vm.front.Start(r.vm.queues...)
}

// step does something, with imports that have begun.
func (r *atRandom) step() {
	r.vm.t.Helper()
	switch r.rounds.IntN(9) {
	case 0, 1:
		if len(r.handles) < 5 { // the VM's memory is bounded
			r.export()
		}
	case 2:
		r.names(3)
	case 3:
		r.vm.mustSuspend()
		r.imports()
		r.vm.mustResume()
	case 4:
		r.vm.front.Stop(r.vm.queues...)
		r.vm.saveState()
		r.vm.front.Start(r.vm.queues...)
	case 5:
		r.importing.move()
	case 6:
		f := r.program.saveTo()
		r.imports()
		if r.rounds.IntN(2) == 0 {
			r.importing.move()
			r.imports()
		}
		r.program.resumeFrom(f)
	case 7:
		r.names(len(r.begun)) // what has no handle any more needn't be there after a suspend
		if len(r.handles) > 1 {
			r.release()
		}
	case 8:
		r.earlier()
	}
}

// TestImportsAtRandom: exports and imports while a VM is suspended, resumed and moved, in any
// order.
func TestImportsAtRandom(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	i := newImporting(t)
	r := &atRandom{importing: i, program: i.program, vm: i.vm,
		rounds: rand.New(rand.NewPCG(seed, 0)), handles: map[uint32]uint64{},
		begun: map[uint64]uint64{}, memory: map[uint64]uint64{}}
	r.export()
	for range rounds {
		for range r.rounds.IntN(3) {
			r.imports()
		}
		r.step()
		if len(r.begun) > 40 { // of 64 that may wait
			r.names(20)
		}
	}
	r.names(len(r.begun))
}
