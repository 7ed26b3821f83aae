// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

const channel = 4

// saver is a worker with two pieces of memory and a pool. Descriptors name the first piece (twice)
// and the pool.
type saver struct {
	*Exports
	worker     *Worker
	a, b, pool uint32
	size       uint64
}

func newSaver(t *testing.T) *saver {
	t.Helper()
	s := &saver{Exports: New(manyFiles), worker: &Worker{}, size: 10}
	s.Serves(s.worker, channel)
	offered(t, s.Exports, s.worker, 7, s.size)
	offered(t, s.Exports, s.worker, 8, 20)
	pool := handover.Object{Kind: handover.ObjectPool, Number: 3, Token: 77}
	s.Receive(s.worker, &handover.Message{Object: &pool}, nil)
	s.a = claimed(t, s.Exports, s.worker, 7, 0, wire.StatusOk)
	s.b = claimed(t, s.Exports, s.worker, 7, 0, wire.StatusOk)
	s.pool = claimed(t, s.Exports, s.worker, 3, 0, wire.StatusOk)
	return s
}

// TestDescriptorsOutliveAWorkerThatIsSaved: its files are closed when it leaves, and handles are
// good again when the next worker has offered what they name.
func TestDescriptorsOutliveAWorkerThatIsSaved(t *testing.T) {
	before := files(t)
	s, other := newSaver(t), &Worker{}
	imported := taken(t, s.Exports, s.a, other, wire.StatusOk)
	for range 3 {
		s.Leave(s.worker)
		s.Ended(s.worker)
		if n := files(t); n != before {
			t.Fatalf("%d files are left of a worker that has ended", n-before)
		}
		offered(t, s.Exports, s.worker, 9, 10) // it says more than it should
		taken(t, s.Exports, s.a, other, wire.StatusNoObject)
		if handles, bytes := s.Held(); handles != 3 || bytes != s.size || s.Lone() != 0 {
			t.Fatalf("%d handles hold %d bytes, %d of nobody", handles, bytes, s.Lone())
		}
		s.fails(t)
		s.worker = &Worker{}
		s.Begins(s.worker, channel)
		offered(t, s.Exports, s.worker, 7, 11) // not what it was
		taken(t, s.Exports, s.a, other, wire.StatusNoObject)
		for _, number := range []uint32{7, 8, 9} { // 9 isn't awaited
			offered(t, s.Exports, s.worker, number, map[uint32]uint64{7: 10, 8: 20, 9: 30}[number])
		}
		s.GoesOn(s.worker)
		o := taken(t, s.Exports, s.b, other, wire.StatusOk)
		if o.ID != imported.ID || o.Number != 7 || o.Own || o.Import <= imported.Import {
			t.Errorf("%+v, before %+v", o, imported)
		}
		imported = o
		claimed(t, s.Exports, s.worker, 9, 0, wire.StatusNoObject)
	}
	fresh := claimed(t, s.Exports, s.worker, 8, 0, wire.StatusOk) // offered before it was saved
	if o, _, status := s.Take(s.pool, other); status != wire.StatusOk || o.Token != 77 {
		t.Errorf("pool %+v, status %d", o, status)
	}
	for _, h := range []uint32{s.a, s.b, s.pool, fresh} {
		if status := s.Release(h); status != wire.StatusOk {
			t.Errorf("release %d: %d", h, status)
		}
	}
	s.Ended(s.worker)
	if n := files(t); n != before || len(s.all()) != 0 {
		t.Errorf("left: %d files, %d objects", n-before, len(s.all()))
	}
}

// fails has a worker begin that ends before it goes on.
func (s *saver) fails(t *testing.T) {
	t.Helper()
	before := files(t)
	w := &Worker{}
	s.Begins(w, channel)
	offered(t, s.Exports, w, 7, s.size)
	taken(t, s.Exports, s.a, w, wire.StatusOk)
	s.Ended(w)
	taken(t, s.Exports, s.a, w, wire.StatusNoObject)
	if n := files(t); n != before {
		t.Errorf("%d files are left of a worker that didn't go on", n-before)
	}
}

// dies has another process take over from this one.
func (s *saver) dies(k *kept) {
	s.die()
	s.Exports = k.next()
	s.Rejoined(func(of int) bool { return of == channel })
}

// TestProgramEndsWhileSaved: its descriptors name nothing any more, also not what the channel's
// next program offers.
func TestProgramEndsWhileSaved(t *testing.T) {
	for name, end := range map[string]func(*saver){
		"forgotten": func(s *saver) { s.Forget(channel) },
		"another":   func(s *saver) { s.Serves(&Worker{}, channel) },
	} {
		s := newSaver(t)
		s.Leave(s.worker)
		s.Owe(s.pool, channel, nil)
		end(s)
		if s.Saved(channel) != nil || s.Lone() != 0 || len(s.owing) != 0 {
			t.Errorf("%s: %d handles are of memory that only they keep, %d workers are owed", name,
				s.Lone(), len(s.owing))
		}
		s.Hold()
		if _, status, _ := s.Owe(s.a, channel+1, &Worker{}); status == wire.StatusOk {
			t.Errorf("%s: memory that is gone is owed", name)
		}
		s.LetGo()
		next := &Worker{}
		s.Serves(next, channel)
		offered(t, s.Exports, next, 7, s.size)
		taken(t, s.Exports, s.a, next, wire.StatusNoObject)
		if status := s.Release(s.a); status != wire.StatusOk {
			t.Errorf("%s: release: %d", name, status)
		}
		s.Clear()
		s.Ended(next)
	}
}

// TestEndsWhileItBegins: a program ends while its worker begins, which leaves nothing behind then.
// The channel's next program has its own worker, and so what it imports.
func TestEndsWhileItBegins(t *testing.T) {
	for name, end := range map[string]func(*saver){
		"forgotten": func(s *saver) { s.Forget(channel) },
		"cleared":   func(s *saver) { s.Clear() },
	} {
		before := files(t)
		s, w := newSaver(t), &Worker{}
		s.Leave(s.worker)
		s.Begins(w, channel)
		offered(t, s.Exports, w, 7, s.size)
		end(s)
		s.Ended(w)
		next := &Worker{}
		s.Serves(next, channel)
		if _, _, owes := s.Owe(s.pool, channel, next); owes || s.Saved(channel) != nil {
			t.Errorf("%s: there is still something of a program that has ended", name)
		}
		s.Clear()
		s.Ended(next)
		if n := files(t); n != before || len(s.all()) != 0 {
			t.Errorf("%s: left: %d files, %d objects", name, n-before, len(s.all()))
		}
	}
}

// TestBeginsMeanwhile: whoever has found no worker for a saved program finds what stands for it,
// though a worker has begun since.
func TestBeginsMeanwhile(t *testing.T) {
	s, w := newSaver(t), &Worker{}
	s.Leave(s.worker)
	s.Begins(w, channel)
	claimed(t, s.Exports, s.Saved(channel), 8, 0, wire.StatusOk)
	if _, status, owes := s.Owe(s.pool, channel, nil); !owes || status != wire.StatusOk {
		t.Errorf("status %d, owes %t", status, owes)
	}
	s.GoesOn(w)
	if got := s.handed(w); len(got) != 1 || s.Saved(channel) != nil {
		t.Errorf("it is handed %+v", got)
	}
	s.Clear()
	s.Ended(w)
}

// TestLeavesMeanwhile: a worker has left since whoever claims its object has looked it up.
func TestLeavesMeanwhile(t *testing.T) {
	s, w := newSaver(t), &Worker{}
	s.Leave(s.worker)
	claimed(t, s.Exports, s.worker, 8, 0, wire.StatusOk)
	s.Begins(w, channel)
	claimed(t, s.Exports, s.worker, 8, 0, wire.StatusOk)
	s.GoesOn(w)
	claimed(t, s.Exports, s.worker, 8, 0, wire.StatusNoObject)
	s.Clear()
	s.Ended(w)
}

// TestPoolOnAnotherGPU: a program that goes on elsewhere has its pools on the GPU that is there.
func TestPoolOnAnotherGPU(t *testing.T) {
	s, w := newSaver(t), &Worker{}
	s.Leave(s.worker)
	s.Begins(w, channel)
	for _, x := range []struct{ token, gpu, want uint64 }{{77, 9, 9}, {78, 8, 9}} {
		pool := handover.Object{Kind: handover.ObjectPool, Number: 3, Token: x.token, GPU: x.gpu}
		s.Receive(w, &handover.Message{Object: &pool}, nil)
		if o, _, _ := s.Take(s.pool, w); o.GPU != x.want {
			t.Errorf("offered again with token %d: it is on GPU %d, want %d", x.token, o.GPU,
				x.want)
		}
	}
	s.Clear()
	s.Ended(w)
}

// TestNumbersOfWhatIsGone: a worker that goes on may give a new object the number of one that was
// withdrawn before, and of which there is a handle.
func TestNumbersOfWhatIsGone(t *testing.T) {
	s := newSaver(t)
	pool := handover.Object{Kind: handover.ObjectPool, Number: 3, Token: 77}
	s.Receive(s.worker, &handover.Message{Kind: handover.KindWithdraw, Object: &pool}, nil)
	s.Leave(s.worker)
	w := &Worker{}
	s.Begins(w, channel)
	s.GoesOn(w)
	if w.handles != 2 {
		t.Errorf("%d handles are of the worker's objects, want those of its memory", w.handles)
	}
	pool.Token = 78
	s.Receive(w, &handover.Message{Object: &pool}, nil)
	fresh := claimed(t, s.Exports, w, 3, 0, wire.StatusOk)
	for handle, token := range map[uint32]uint64{s.pool: 77, fresh: 78} {
		if o, _, status := s.Take(handle, w); status != wire.StatusOk || o.Token != token {
			t.Errorf("handle %d is of %+v, want token %d", handle, o, token)
		}
	}
	s.Release(s.pool)
	if o, _, _ := s.Take(fresh, w); o.Token != 78 {
		t.Errorf("the other pool is gone, too: %+v", o)
	}
	s.Clear()
	s.Ended(w)
	if len(s.all()) != 0 || w.handles != 0 {
		t.Errorf("%d objects are left, %d handles", len(s.all()), w.handles)
	}
}

// TestLone: memory that its program has released, or that ended, can't be made again. Pools can.
func TestLone(t *testing.T) {
	s := newSaver(t)
	s.Receive(s.worker, &handover.Message{Kind: handover.KindWithdraw,
		Object: &handover.Object{Kind: handover.ObjectMemory, Number: 7}}, nil)
	if n := s.Lone(); n != 2 {
		t.Errorf("%d handles of memory that was released, want 2", n)
	}
	taken(t, s.Exports, s.a, s.worker, wire.StatusOk) // as long as nothing is saved
	s.Release(s.a)
	s.Release(s.b)
	s.Ended(s.worker)
	if n := s.Lone(); n != 0 {
		t.Errorf("%d handles of nobody's memory, want those of a pool not to count", n)
	}
	s.Clear()
}

// TestTakenElsewhere: another device process has the handles, without files, until workers go on
// there. What it had before is gone.
func TestTakenElsewhere(t *testing.T) {
	before := files(t)
	s := newSaver(t)
	state := s.State()
	if err := Check(state); err != nil {
		t.Fatal(err)
	}
	there := newSaver(t)
	there.Leave(there.worker)
	if err := there.Load(state, nobody); err != nil {
		t.Fatal(err)
	}
	w := &Worker{}
	there.Begins(w, channel)
	taken(t, there.Exports, s.a, w, wire.StatusNoObject)
	offered(t, there.Exports, w, 7, s.size)
	offered(t, there.Exports, w, 8, 20)
	there.GoesOn(w)
	taken(t, there.Exports, s.a, w, wire.StatusOk)
	claimed(t, there.Exports, w, 8, 0, wire.StatusOk)
	taken(t, s.Exports, s.a, w, wire.StatusOk) // nothing has ended here
	there.Clear()
	there.Ended(w)
	if there.State() != nil || there.Load(nil, nobody) != nil || Check(nil) != nil {
		t.Error("there is something of nothing")
	}
	s.Clear()
	s.Ended(s.worker)
	if n := files(t); n != before {
		t.Errorf("%d files are left", n-before)
	}
	for n := range state {
		if err := there.Load(state[:n], nobody); n > 0 && !errors.Is(err, ErrState) ||
			there.State() != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestSavedAndTakenOver: the device process dies while programs are saved, and again when one has
// just begun. The files that the next one finds are of workers that end.
func TestSavedAndTakenOver(t *testing.T) {
	before := files(t)
	k := &kept{t: t, files: map[int]int{}}
	s := newSaver(t)
	s.KeepIn(k)
	s.Leave(s.worker)
	w := &Worker{}
	for round := range 3 {
		if round > 0 {
			s.Begins(w, channel)
			offered(t, s.Exports, w, 7, s.size)
		}
		s.die()
		e := k.next()
		e.Rejoined(func(of int) bool { return of == channel })
		s.Exports, w = e, &Worker{}
		if len(k.files) != 0 || files(t) != before || s.Saved(channel) == nil {
			t.Errorf("round %d: %d files are kept, %d open", round, len(k.files), files(t)-before)
		}
	}
	s.Begins(w, channel)
	offered(t, s.Exports, w, 7, s.size)
	s.GoesOn(w)
	taken(t, s.Exports, s.a, w, wire.StatusOk)
	s.Clear()
	s.Ended(w)
	if len(k.files) != 0 || files(t) != before {
		t.Errorf("%d files are kept, %d open", len(k.files), files(t)-before)
	}
}

// FuzzLoad takes any state: what isn't refused is as bounded as what this process would make.
func FuzzLoad(f *testing.F) {
	var w Worker
	e := New(manyFiles)
	e.Receive(&w, &handover.Message{
		Object: &handover.Object{Kind: handover.ObjectPool, Number: 3, Token: 5},
	}, nil)
	e.Claim(&w, 3, 0)
	f.Add(e.State())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, state []byte) {
		e := New(manyFiles)
		if err := e.Load(state, func(c int) bool { return c == channel }); err != nil {
			if !errors.Is(err, ErrState) || e.State() != nil {
				t.Errorf("%v, and %d bytes are left", err, len(e.State()))
			}
			return
		}
		if n, _ := e.Held(); n > maxHandles {
			t.Errorf("%d handles", n)
		}
		for c := range wire.MaxChannels {
			w := &Worker{}
			e.Begins(w, c)
			fd, err := unix.MemfdCreate("object", unix.MFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			e.Receive(w, &handover.Message{Files: handover.Files{Object: true},
				Object: &handover.Object{Kind: handover.ObjectMemory, Number: 1}}, []int{fd})
			e.GoesOn(w)
			e.Ended(w)
		}
		e.Clear()
	})
}
