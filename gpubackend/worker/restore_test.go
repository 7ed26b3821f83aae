// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
	"github.com/paracuda/paracuda/gpubackend/worker/saving"
)

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
	for _, s := range append(savedPairs(f), s) {
		// What is in the memory is left out: there may be none, and it is long.
		f.Add(s[names[0]], s[names[1]], s[names[2]], s[names[3]], []byte{})
	}
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
