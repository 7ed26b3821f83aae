// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
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
	"github.com/paracuda/paracuda/gpubackend/worker/saving"
)

// savedBase is where programs that are saved and restored have their device memory, and savedPlace
// where they map some by hand.
const (
	savedBase  = 0x2e0000000000
	savedPlace = memory.ReserveEnd - 1<<40
)

// freshOnSoft is a worker whose program has done nothing. end ends its device.
func freshOnSoft(t testing.TB) (r *rig, end func()) {
	t.Helper()
	return freshAt(t, savedBase)
}

// freshAt is freshOnSoft with its device memory somewhere else.
func freshAt(t testing.TB, base uint64) (r *rig, end func()) {
	t.Helper()
	r = newRig(t)
	r.withQueue(t)
	d := soft.New(soft.Options{Memory: 128 << 20, Base: base, Window: 1 << 30})
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

// TestBareIsChecked: what a record says of the queue and of the guest's memory is compared with
// what there is, when there is something.
func TestBareIsChecked(t *testing.T) {
	good, _ := savedProgram(t)
	page := wire.Run{Address: 4096, Bytes: 4096}
	for name, x := range map[string]struct {
		change func(q *saved.Queue)
		want   string
	}{
		"no arena":          {func(*saved.Queue) {}, "0 runs of guest memory"},
		"a queue elsewhere": {func(q *saved.Queue) { q.Base++ }, "the queue is elsewhere"},
		"a head":            {func(q *saved.Queue) { q.InFlight = []uint16{1} }, "elsewhere"},
		"a head that no queue has": {func(q *saved.Queue) { q.InFlight = []uint16{1 << 15} },
			"head 32768 is in flight"},
		"memory beyond all": {func(q *saved.Queue) {
			q.Maps = []saved.Map{{ID: 1, Bytes: 1, Runs: []wire.Run{{Address: 1 << 62, Bytes: 1}}}}
		}, "of guest memory at 0x4000000000000000"},
		"memory that wraps": {func(q *saved.Queue) {
			q.Maps = []saved.Map{{ID: 1, Bytes: 1,
				Runs: []wire.Run{{Address: 4096, Bytes: ^uint64(0)}}}}
		}, "of guest memory at 0x1000"},
		"memory that the guest hasn't": {func(q *saved.Queue) {
			q.Maps = []saved.Map{{ID: 1, Bytes: 1, Runs: []wire.Run{{Address: 1 << 40, Bytes: 1}}}}
		}, "1 bytes of guest memory at 0x10000000000"},
		"an arena that is too small": {func(q *saved.Queue) { q.Arena = []wire.Run{page} },
			"arena of 4096 bytes"},
	} {
		state, err := saved.Decode(good[savedvm.StateName])
		if err != nil {
			t.Fatal(err)
		}
		x.change(&state.Queue)
		text, err := state.Encode()
		if err != nil {
			t.Fatal(err)
		}
		s := maps.Clone(good)
		s[savedvm.StateName] = text
		r, end := freshOnSoft(t)
		err = r.restoreBare(t, s)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
		end()
	}
}

// TestRestored: another worker has what the program had, by the same handles, and goes on.
func TestRestored(t *testing.T) {
	s, h := savedProgram(t)
	r, end := freshOnSoft(t)
	defer end()
	if err := r.restoreSections(t, s); err != nil {
		t.Fatal(err)
	}
	r.context = h.context
	if err := r.saving.Unsavable(); err != nil {
		t.Errorf("it can't be saved again: %v", err)
	}
	if n := r.does(t, gpubackend.OpCtxGetLimit, cudaabi.LimitStackSize); n != 8192 {
		t.Errorf("kernels have %d bytes of stack", n)
	}
	r.does(t, gpubackend.OpGraphLaunch, h.exec, h.stream)
	r.does(t, gpubackend.OpGraphLaunch, h.chosen, h.stream)
	r.awaitsWork()
	if b := space.Bytes(h.memory, 8); b[3] != 9 || b[4] != 7 {
		t.Errorf("the graphs have written %v", b)
	}
	if b := space.Bytes(h.allocated, 4096); b[4095] != 5 {
		t.Errorf("memory of a graph has %d", b[4095])
	}
	if p := r.objects.Parent(h.body); !r.objects.Has(h.body) || p != h.chooses {
		t.Errorf("the body is in %#x, want %#x", p, h.chooses)
	}
	r.does(t, gpubackend.OpMemFree, h.allocated)
	r.does(t, gpubackend.OpGraphExecDestroy, h.chosen)
	r.does(t, gpubackend.OpGraphDestroy, h.chooses)
	r.does(t, gpubackend.OpEventRecordWithFlags, h.event, h.stream, 0)
	r.does(t, gpubackend.OpGraphNodeSetEnabled, h.exec, h.node, 0)
	r.does(t, gpubackend.OpSurfObjectDestroy, h.surface)
	r.does(t, gpubackend.OpArrayDestroy, h.array)
	r.does(t, gpubackend.OpGraphDestroy, h.graph)
	r.does(t, gpubackend.OpGraphExecDestroy, h.exec)
	r.does(t, gpubackend.OpMemFree, h.memory)
	r.does(t, gpubackend.OpMemMap, savedPlace+piece, piece, h.hidden)
	for at, want := range map[uint64]byte{savedPlace: 2, savedPlace + piece: 1} {
		if got := space.Bytes(at+piece-1, 1)[0]; got != want {
			t.Errorf("at %#x is %d, want %d", at, got, want)
		}
	}
	r.does(t, gpubackend.OpMemUnmap, savedPlace, 2*piece)
	r.does(t, gpubackend.OpMemRelease, h.mapped)
	r.does(t, gpubackend.OpMemRelease, h.hidden)
}

// fails makes a program whose kernel fails, in a context that it makes with make, and waits until
// it has. Nobody is told.
func (r *rig) fails(t testing.TB, make gpubackend.Op, words ...uint64) {
	t.Helper()
	r.context = r.does(t, make, words...)
	const none = wire.BufferNone << 56
	ptx := []byte(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() { trap; }\n")
	copy(r.mem[wire.Bulk:], ptx)
	module := r.does(t, gpubackend.OpModuleLoadData, bulk, uint64(len(ptx)), none, 0, none, 0,
		none, 0)
	r.function = r.gives(t, gpubackend.OpModuleGetFunction, []byte("f"), module)
	if err := r.saving.Unsavable(); err != nil {
		t.Fatal(err)
	}
	r.launch(nil)
	if _, err := r.runCommands(); err != nil {
		t.Fatal(err)
	}
	r.launcher.Flush()
	r.awaitsWork()
}

// TestFailedIsSaved: a program whose context has failed goes on in another worker, where every call
// answers with the error, and its pinned memory comes back.
func TestFailedIsSaved(t *testing.T) {
	r, end := freshOnSoft(t)
	defer func() { end() }()
	if result := r.hello.Reopen(nil); result != gpubackend.Success {
		t.Fatalf("open: %d", result)
	}
	r.fails(t, gpubackend.OpDevicePrimaryCtxRetain, 0)
	context := r.context
	for round := range 3 {
		if err := r.saving.Unsavable(); err != nil {
			t.Fatal(round, err)
		}
		var b bytes.Buffer
		if err := r.saving.Save(&b, savedvm.Nowhere); err != nil {
			t.Fatal(round, err)
		}
		end()
		r, end = freshOnSoft(t)
		if err := r.restoreSections(t, sectionsOf(t, &b)); err != nil {
			t.Fatal(round, err)
		}
		r.context = context
		if round == 0 {
			continue // nobody was told
		}
		for op, words := range map[gpubackend.Op][]uint64{
			gpubackend.OpCtxSynchronize: nil, gpubackend.OpMemAlloc: {4096},
			gpubackend.OpMemFree: {77}, gpubackend.OpDevicePrimaryCtxReset: {0},
			gpubackend.OpCtxCreate: {0, 0}, gpubackend.OpCtxDestroy: {context},
		} {
			if got := r.call(t, op, words...); got != gpubackend.LaunchFailed {
				t.Errorf("round %d: %s: %v", round, op.Name(), got)
			}
		}
		got := binary.LittleEndian.Uint32(r.mem[wire.ArenaHeaderStickyErrorOffset:])
		if got != uint32(gpubackend.LaunchFailed) {
			t.Errorf("round %d: the guest is told %d", round, got)
		}
		r.does(t, gpubackend.Op(wire.OpThreadExit))
	}
}

// TestFailedWithOthers: a program of which one of several contexts has failed stays where it is,
// until it is told: it may go on with the others.
func TestFailedWithOthers(t *testing.T) {
	r, end := freshOnSoft(t)
	defer end()
	if result := r.hello.Reopen(nil); result != gpubackend.Success {
		t.Fatalf("open: %d", result)
	}
	r.does(t, gpubackend.OpDevicePrimaryCtxRetain, 0)
	r.fails(t, gpubackend.OpCtxCreate, 0, 0)
	if err := r.saving.Unsavable(); !errors.Is(err, saving.ErrFailed) {
		t.Errorf("it can be saved, or not because of %v", err)
	}
	if err := r.saving.Counted(); err != nil {
		t.Errorf("it can't be saved because of %v", err)
	}
	if got := r.call(t, gpubackend.OpCtxSynchronize); got != gpubackend.LaunchFailed {
		t.Errorf("it is told %v", got)
	}
	if err := r.saving.Unsavable(); err != nil {
		t.Errorf("it can't be saved because of %v", err)
	}
}

// FuzzRestore restores a worker from anything that is a record, one that has its queue and the
// guest's memory and one that gets both afterwards. Nothing may panic, and what isn't refused can
// be saved again or says why not.
func FuzzRestore(f *testing.F) {
	s, _ := savedProgram(f)
	// What is in the memory is left out: there may be none, and it is long.
	f.Add(s[names[0]], s[names[1]], s[names[2]], s[names[3]], []byte{})
	f.Add([]byte("{}"), make([]byte, 8), []byte{}, make([]byte, 8), []byte{})
	f.Add([]byte(`{"Failed":700}`), []byte{}, []byte{}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, state, objects, journal, layout, memory []byte) {
		const most = 1 << 20
		if len(state)+len(objects)+len(journal)+len(layout)+len(memory) > most {
			return
		}
		for _, restore := range []func(*rig, testing.TB, sections) error{
			(*rig).restoreSections, (*rig).restoreBare,
		} {
			r, end := freshOnSoft(t)
			err := restore(r, t, sections{names[0]: state, names[1]: objects, names[2]: journal,
				names[3]: layout, names[4]: memory})
			if err == nil {
				_ = r.saving.Unsavable()
			}
			end()
		}
	})
}
