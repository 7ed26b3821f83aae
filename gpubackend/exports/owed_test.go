// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// TestImportedMeanwhile: what a program imports while it is saved, or about to be, is handed to the
// worker that goes on.
func TestImportedMeanwhile(t *testing.T) {
	k := &kept{t: t, files: map[int]int{}}
	s := newSaver(t)
	s.KeepIn(k)
	if _, _, owes := s.Owe(s.a, channel, s.worker); owes {
		t.Fatal("a worker that runs is owed something")
	}
	s.Hold()
	first, status, owes := s.Owe(s.a, channel, s.worker)
	if !owes || status != wire.StatusOk {
		t.Fatalf("status %d, owes %t", status, owes)
	}
	s.Leave(s.worker)
	second, status, owes := s.Owe(s.pool, channel, nil)
	if !owes || status != wire.StatusOk || second == first {
		t.Fatalf("imports %d and %d, status %d, owes %t", first, second, status, owes)
	}
	for name, x := range map[string]struct {
		handle  uint32
		channel int
		status  uint32
		owes    bool
	}{
		"no handle":  {99, channel, wire.StatusNoObject, true},
		"no program": {s.a, channel + 1, wire.StatusOk, false},
	} {
		_, status, owes := s.Owe(x.handle, x.channel, nil)
		if status != x.status || owes != x.owes {
			t.Errorf("%s: status %d, owes %t", name, status, owes)
		}
	}
	n := 2
	for ; ; n++ {
		if _, status, _ := s.Owe(s.a, channel, nil); status == wire.StatusLimit {
			break
		}
	}
	if n != maxOwed {
		t.Errorf("a program that is saved is owed %d objects", n)
	}
	s.dies(k)
	late := claimed(t, s.Exports, s.Saved(channel), 8, 0, wire.StatusOk)
	w := &Worker{}
	s.Begins(w, channel)
	offered(t, s.Exports, w, 7, s.size)
	offered(t, s.Exports, w, 8, 20)
	s.GoesOn(w)
	s.LetGo()
	got := s.handed(w)
	for _, x := range got {
		handover.CloseFiles([]int{x.file})
	}
	if len(got) != maxOwed || got[0].Import != first || got[0].Bytes != s.size || !got[0].Own ||
		got[0].file < 0 || got[1].Import != second || got[1].Token != 77 || got[1].file != -1 {
		t.Errorf("%d are handed over, first %+v", len(got), got[:2])
	}
	if again := s.handed(w); len(again) != 0 {
		t.Errorf("%d are handed over twice", len(again))
	}
	taken(t, s.Exports, late, w, wire.StatusOk)
	s.Clear()
	s.Ended(w)
}

// TestOwedWithoutHandles: what has lost its last handle isn't handed over, and above all no other
// file that has the number of its file now.
func TestOwedWithoutHandles(t *testing.T) {
	for name, end := range map[string]func(*saver){
		"released": func(s *saver) { s.Release(s.a); s.Release(s.b) },
		"cleared":  func(s *saver) { s.Clear() },
	} {
		s, importer := newSaver(t), &Worker{}
		s.Serves(importer, channel+1)
		s.Hold()
		if _, status, owes := s.Owe(s.a, channel+1, importer); !owes || status != wire.StatusOk {
			t.Fatalf("status %d, owes %t", status, owes)
		}
		end(s)
		other, err := unix.MemfdCreate("other", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		s.LetGo()
		for _, x := range s.handed(importer) {
			t.Errorf("%s: %+v is handed over", name, x)
			handover.CloseFiles([]int{x.file})
		}
		handover.CloseFiles([]int{other})
		s.Ended(s.worker)
		s.Ended(importer)
	}
}

// TestNothingIsOwedToTheDead: a worker has ended when its program's import is looked at.
func TestNothingIsOwedToTheDead(t *testing.T) {
	s, importer := newSaver(t), &Worker{}
	s.Serves(importer, channel+1)
	s.Hold()
	s.Ended(importer)
	if _, _, owes := s.Owe(s.a, channel+1, importer); owes || len(s.owing) != 0 {
		t.Errorf("owes %t, to %d workers", owes, len(s.owing))
	}
	s.Clear()
	s.Ended(s.worker)
}

// handed is what a worker is handed before it goes on.
func (s *saver) handed(w *Worker) (list []exported) {
	s.HandOwed(w, func(o handover.Object, file int) {
		list = append(list, exported{Object: o, file: file})
	})
	return list
}

// TestNothingIsHandedBeforeAWorkerGoesOn: neither to one that was taken over, nor to one that
// begins with a saved program. What an earlier process may have handed over is marked.
func TestNothingIsHandedBeforeAWorkerGoesOn(t *testing.T) {
	for name, begin := range map[string]func(*saver, *kept){
		"taken over": func(s *saver, k *kept) {
			s.Hold()
			s.Owe(s.pool, channel, s.worker)
			s.die()
			s.Exports, s.worker = k.next(), &Worker{}
			s.Rejoin(s.worker, channel)
		},
		"saved": func(s *saver, _ *kept) {
			s.Leave(s.worker)
			s.Owe(s.pool, channel, nil)
			s.worker = &Worker{}
			s.Begins(s.worker, channel)
			s.GoesOn(s.worker)
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := &kept{t: t, files: map[int]int{}}
			s := newSaver(t)
			s.KeepIn(k)
			begin(s, k)
			if _, _, owes := s.Owe(s.pool, channel, s.worker); !owes {
				t.Error("it is handed something before what it is owed")
			}
			got := s.handed(s.worker)
			if len(got) != 2 || got[0].Again != (name == "taken over") || got[1].Again ||
				got[0].Import >= got[1].Import {
				t.Errorf("it is handed %+v", got)
			}
			if _, _, owes := s.Owe(s.pool, channel, s.worker); owes {
				t.Error("it is still owed something, though it goes on")
			}
			s.Clear()
			s.Ended(s.worker)
		})
	}
}

// TestDiesInTheMiddle: what a process that dies was about to hand over is owed afterwards.
func TestDiesInTheMiddle(t *testing.T) {
	k := &kept{t: t, files: map[int]int{}}
	s := newSaver(t)
	s.KeepIn(k)
	s.Hold()
	number, _, _ := s.Owe(s.pool, channel, s.worker)
	var there []exported
	s.HandOwed(s.worker, func(handover.Object, int) {
		next, w := &saver{Exports: k.next()}, &Worker{}
		next.Rejoin(w, channel)
		there = next.handed(w)
	})
	if len(there) != 1 || there[0].Import != number || !there[0].Again {
		t.Errorf("handed over afterwards: %+v, want import %d", there, number)
	}
	s.Clear()
	s.Ended(s.worker)
}

// TestOwedAreTakenOver: another process knows what a worker that lives on is owed, too. A program
// that only imports may be saved when it takes over.
func TestOwedAreTakenOver(t *testing.T) {
	k := &kept{t: t, files: map[int]int{}}
	s, importer := newSaver(t), &Worker{}
	s.KeepIn(k)
	s.Serves(importer, channel+1)
	s.Hold()
	number, _, _ := s.Owe(s.pool, channel+1, importer)
	s.Leave(s.worker)
	s.die()
	s.Exports = k.next()
	importer = &Worker{}
	s.Rejoin(importer, channel+1)
	s.Rejoined(func(of int) bool { return of == channel || of == channel+2 })
	if got := s.handed(importer); len(got) != 1 || got[0].Import != number || got[0].Token != 77 {
		t.Errorf("it is owed %+v", got)
	}
	next, status, owes := s.Owe(s.a, channel+2, nil)
	if !owes || status != wire.StatusOk || next <= number {
		t.Errorf("import %d, status %d, owes %t", next, status, owes)
	}
	there := New(manyFiles)
	if err := there.Load(s.State(), nobody); err != nil || len(there.before[channel+2].owed) != 1 {
		t.Errorf("what is owed isn't taken along: %v", err)
	}
	there.Clear()
	if len(there.owing) != 0 || there.State() != nil {
		t.Errorf("%d workers are owed something of nothing", len(there.owing))
	}
	s.Clear()
}
