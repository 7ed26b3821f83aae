// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/soft"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/memory"
	"github.com/paracuda/paracuda/gpubackend/worker/queue"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// savedBase is where programs that are saved and restored have their device memory, and savedPlace
// where they map some by hand.
const (
	savedBase  = 0x2e0000000000
	savedPlace = memory.ReserveEnd - 1<<40
)

// freshOnSoft is a worker whose program has done nothing, with two GPUs. end ends its device.
func freshOnSoft(t testing.TB) (r *rig, end func()) {
	t.Helper()
	return freshWith(t, savedBase, 2)
}

// freshAt is one with one GPU, whose device memory is somewhere else.
func freshAt(t testing.TB, base uint64) (r *rig, end func()) {
	t.Helper()
	return freshWith(t, base, 1)
}

// freshWith is freshAt with so many GPUs.
func freshWith(t testing.TB, base uint64, gpus int) (r *rig, end func()) {
	t.Helper()
	r = newRig(t)
	r.withQueue(t)
	d := soft.New(soft.Options{Memory: 128 << 20, Base: base, Window: 1 << 30, GPUs: gpus})
	r.equip(d)
	r.objects, r.context = object.Table{}, 0
	return r, func() {
		r.sharing.Close()
		r.memory.Close()
		r.pools.Close()
		for _, x := range r.memory.Save().Reserved {
			d.Unreserve(x.Base, x.Bytes) // with what is mapped there
		}
		d.Close()
	}
}

// does executes a command, which succeeds.
func (r *rig) does(t testing.TB, op gpubackend.Op, words ...uint64) uint64 {
	t.Helper()
	if result := r.call(t, op, words...); result != gpubackend.Success {
		t.Fatalf("%s: result %d", op.Name(), result)
	}
	return r.slot().Word[0]
}

// awaitsWork waits until the device has nothing to do.
func (r *rig) awaitsWork() {
	for r.Worker.driver.ContextQuery() == gpubackend.NotReady {
		time.Sleep(time.Millisecond)
	}
}

// gives executes a command with bytes as its first argument, or behind those in before.
func (r *rig) gives(t testing.TB, op gpubackend.Op, b []byte, before ...uint64) uint64 {
	t.Helper()
	copy(r.mem[wire.Bulk:], b)
	return r.does(t, op, append(before, bulk, uint64(len(b)))...)
}

// choosesAndAllocates makes a graph with a node that runs a body, and has memory that another one
// has allocated, which is gone.
func (r *rig) choosesAndAllocates(t testing.TB, h *belongings) {
	t.Helper()
	const none = wire.BufferNone << 56
	add := func(graph uint64, node interface{ Append([]byte) []byte }) uint64 {
		b := node.Append(nil)
		copy(r.mem[wire.Bulk:], b)
		return r.does(t, gpubackend.OpGraphAddNode, graph, none, 0, none, 0, bulk, uint64(len(b)),
			bulk+512, 8)
	}
	h.chooses = r.does(t, gpubackend.OpGraphCreate, 0)
	handle := r.does(t, gpubackend.OpGraphConditionalHandle, h.chooses, 1, 1)
	add(h.chooses, &command.NodeConditional{Handle: handle, Bodies: 1})
	h.body = binary.LittleEndian.Uint64(r.mem[wire.Bulk+512:])
	add(h.body, &command.NodeMemset{Dst: h.memory, Value: 9, Element: 1, Width: 4, Height: 1})
	h.chosen = r.does(t, gpubackend.OpGraphInstantiateWithFlags, h.chooses, 0)
	allocates := r.does(t, gpubackend.OpGraphCreate, 0)
	pool := make([]byte, cudaabi.MemPoolPropsSize)
	p := cudaabi.MemPoolProps(pool)
	p.SetAllocType(cudaabi.MemAllocationPinned)
	p.Location().SetType(cudaabi.MemLocationDevice)
	add(allocates, &command.NodeMemAlloc{Bytes: 4096, Pool: pool})
	h.allocated = r.slot().Word[1]
	e := r.does(t, gpubackend.OpGraphInstantiateWithFlags, allocates, 0)
	r.does(t, gpubackend.OpGraphLaunch, e, h.stream)
	r.awaitsWork()
	r.does(t, gpubackend.OpGraphExecDestroy, e)
	r.does(t, gpubackend.OpGraphDestroy, allocates)
	space.Bytes(h.allocated, 4096)[4095] = 5
}

// belongings are what the program of savedProgram has.
type belongings struct {
	context, stream, event, memory, array, surface, graph, node, exec uint64

	chooses, body, chosen, allocated uint64 // a graph with a body, and memory of a graph

	mapped, hidden uint64 // memory without an address, of which one is mapped
}

// sections are the sections of a program, by name.
type sections map[string][]byte

// savedProgram is what a program leaves that had objects of every kind.
func savedProgram(t testing.TB) (sections, belongings) {
	t.Helper()
	r, end := freshOnSoft(t)
	if result := r.hello.Reopen(nil); result != gpubackend.Success {
		t.Fatalf("open: %d", result)
	}
	defer end()
	var h belongings
	h.context = r.does(t, gpubackend.OpDevicePrimaryCtxRetain, 0)
	r.context = h.context
	r.does(t, gpubackend.OpCtxSetLimit, cudaabi.LimitStackSize, 4096)
	r.does(t, gpubackend.OpCtxSetLimit, cudaabi.LimitStackSize, 8192)
	h.stream = r.does(t, gpubackend.OpStreamCreateWithPriority, 1, 0)
	h.event = r.does(t, gpubackend.OpEventCreate, 2)
	h.memory = r.does(t, gpubackend.OpMemAlloc, 4096)
	r.does(t, gpubackend.OpIpcGetMemHandle, h.memory)
	r.does(t, gpubackend.OpPoolDefault, 0)
	h.mapped, h.hidden = r.mapsMemory(t)
	desc := make([]byte, cudaabi.Array3DDescriptorSize)
	a := cudaabi.Array3DDescriptor(desc)
	a.SetWidth(16)
	a.SetHeight(16)
	a.SetFormat(0x20) // floats
	a.SetNumChannels(1)
	a.SetFlags(cudaabi.Array3DSurfaceLdst)
	h.array = r.gives(t, gpubackend.OpArray3DCreate, desc)
	resource := make([]byte, cudaabi.ResourceDescSize)
	cudaabi.ResourceDesc(resource).SetArray(h.array)
	h.surface = r.gives(t, gpubackend.OpSurfObjectCreate, resource)
	h.graph = r.does(t, gpubackend.OpGraphCreate, 0)
	fill := command.NodeMemset{Dst: h.memory, Value: 7, Element: 1, Width: 100, Height: 1}
	const none = wire.BufferNone << 56
	node := fill.Append(nil)
	copy(r.mem[wire.Bulk:], node)
	h.node = r.does(t, gpubackend.OpGraphAddNode, h.graph, none, 0, none, 0,
		bulk, uint64(len(node)), none, 0)
	h.exec = r.does(t, gpubackend.OpGraphInstantiateWithFlags, h.graph, 0)
	r.choosesAndAllocates(t, &h)
	return r.saved(t), h
}

// saved is what a program leaves whose memory is out, as far as it can be.
func (r *rig) saved(t testing.TB) sections {
	t.Helper()
	if err := r.saving.Unsavable(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.suspension.MoveOut(r.suspension.Plan(false), false); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err := errors.Join(r.saving.Save(&b, savedvm.Nowhere), r.suspension.MoveIn(),
		r.suspension.End())
	if err != nil {
		t.Fatal(err)
	}
	return sectionsOf(t, &b)
}

// mapsMemory has memory at savedPlace, and some that isn't mapped any more. A word is in
// each.
func (r *rig) mapsMemory(t testing.TB) (mapped, hidden uint64) {
	t.Helper()
	r.does(t, gpubackend.OpMemAddressReserve, savedPlace, 2*piece)
	for word, m := range []*uint64{&hidden, &mapped} {
		*m = r.does(t, gpubackend.OpMemCreate, piece, 0, 0)
		if word > 0 {
			r.does(t, gpubackend.OpMemUnmap, savedPlace, piece)
		}
		r.does(t, gpubackend.OpMemMap, savedPlace, piece, *m)
		r.does(t, gpubackend.OpMemSetAccess, savedPlace, piece, 0, gpubackend.AccessReadWrite)
		space.Bytes(savedPlace+piece-1, 1)[0] = byte(1 + word)
	}
	return mapped, hidden
}

// names are those of a program's sections, in their order.
var names = []string{savedvm.StateName, savedvm.ObjectsName, savedvm.JournalName,
	savedvm.LayoutName, savedvm.SameName, savedvm.MemoryName}

func sectionsOf(t testing.TB, from io.Reader) sections {
	t.Helper()
	r, err := record.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	s := sections{}
	for _, name := range names {
		if s[name], err = savedvm.ReadAll(r, name, 1<<30); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// record is one with all sections.
func (s sections) record(t testing.TB) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w, err := record.NewWriter(&b, record.Header{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		err := w.Begin(record.Section{Program: 1, Name: name, Bytes: uint64(len(s[name]))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(s[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// ownArena restores all of a queue but the arena and where it is: the rig keeps its own.
type ownArena struct{ *queue.Queue }

func (q ownArena) Restore(s *saved.Queue) error { return q.RestoreMaps(s.Maps) }

// restoreSections makes the rig what sections say.
func (r *rig) restoreSections(t testing.TB, s sections) error {
	t.Helper()
	r.saving.Queue = ownArena{r.queue}
	return r.saving.Restore(s.record(t), nil, false)
}

// restoreBare makes the rig what sections say, as a worker that gets its queue and the guest's
// memory afterwards.
func (r *rig) restoreBare(t testing.TB, s sections) error {
	t.Helper()
	r.queue = r.newQueue(-1)
	r.equip(r.Worker.driver)
	err := r.saving.Restore(s.record(t), nil, false)
	if err := errors.Join(err, r.queue.Move(r.guest.Mem)); err != nil {
		return err
	}
	t.Cleanup(r.queue.Close)
	if restored, err := r.queue.Resume(&r.where); err != nil || !restored {
		return errors.Join(err, fmt.Errorf("restored: %t", restored))
	}
	return r.hostMemory.Remap()
}
