// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// TestSavedProgramsExportAndImport: a program that is saved, and so has no worker, gets handles of
// what it has offered. What it imports is handed to its next worker before that goes on, and so is
// what it imports when it is about to be saved.
func TestSavedProgramsExportAndImport(t *testing.T) {
	const channel, none = 1, 2
	e, handed := exports.New(1<<20), make(chan handover.Object, 4)
	notes := func(m *handover.Message) *handover.Message {
		if m.Kind == handover.KindImport {
			handed <- *m.Object
		}
		return polite(m)
	}
	first := newWorker(t, e, notes)
	workers := map[int]*worker{channel: first}
	o := newObjects(workers, e)
	e.Serves(&first.offers, channel)
	handle, status := o.Export(channel, 5)
	if status != wire.StatusOk {
		t.Fatalf("export: status %d", status)
	}
	e.Hold()
	var numbers []uint32
	imports := func(channel int, want uint32) {
		t.Helper()
		number, status := o.Import(channel, handle)
		if status != want {
			t.Errorf("import: status %d, want %d", status, want)
		}
		if status == wire.StatusOk {
			numbers = append(numbers, number)
		}
	}
	imports(channel, wire.StatusOk)
	e.Leave(&first.offers)
	delete(workers, channel)
	imports(channel, wire.StatusOk)
	imports(none, wire.StatusBadRequest)
	if again, status := o.Export(channel, 5); status != wire.StatusOk || again == handle {
		t.Errorf("export once more: handle %d, status %d", again, status)
	}
	if _, status := o.Export(none, 5); status != wire.StatusBadRequest {
		t.Errorf("export of a channel without a program: status %d", status)
	}
	if len(handed) > 0 {
		t.Error("a worker that is about to end was handed something")
	}

	next := newWorker(t, e, notes)
	e.Begins(&next.offers, channel)
	workers[channel] = next
	if err := next.peer.Conn.Request(&handover.Message{Kind: handover.KindSync}, nil,
		handover.KindSynced, time.Minute); err != nil { // it offers again
		t.Fatal(err)
	}
	e.GoesOn(&next.offers)
	e.LetGo()
	o.HandOwed(none)
	o.HandOwed(channel)
	if len(handed) != len(numbers) {
		t.Fatalf("%d objects are handed over, want %d", len(handed), len(numbers))
	}
	for _, number := range numbers {
		if x := <-handed; x.Import != number || x.Bytes != 4096 || !x.Own {
			t.Errorf("%+v, want it by the number %d", x, number)
		}
	}
	imports(channel, wire.StatusOk)
	if x := <-handed; x.Import != numbers[len(numbers)-1] {
		t.Errorf("%+v, want what was imported last", x)
	}
	e.Clear()
}

// TestBeginsUnasked: a worker that begins with a saved program isn't asked for what it doesn't
// offer: it can't answer yet, and would be killed.
func TestBeginsUnasked(t *testing.T) {
	const channel = 1
	e := exports.New(1 << 20)
	w := newWorker(t, e, func(m *handover.Message) *handover.Message {
		t.Errorf("it is sent %q", m.Kind)
		return polite(m)
	})
	e.Begins(&w.offers, channel)
	o := newObjects(map[int]*worker{channel: w}, e)
	if _, status := o.Export(channel, 99); status != wire.StatusNoObject {
		t.Errorf("export: status %d", status)
	}
}

// TestImportIsAwaited: workers aren't asked to stand still before an import that is on its way has
// arrived.
func TestImportIsAwaited(t *testing.T) {
	const channel = 1
	e, held := exports.New(1<<20), make(chan struct{})
	w := newWorker(t, e, func(m *handover.Message) *handover.Message {
		if m.Kind != handover.KindImport {
			return polite(m)
		}
		go func() {
			e.Hold()
			close(held)
		}()
		select {
		case <-held:
			t.Error("workers may be saved before the import is there")
		case <-time.After(100 * time.Millisecond): // long enough for what must not happen
		}
		return polite(m)
	})
	o := newObjects(map[int]*worker{channel: w}, e)
	e.Serves(&w.offers, channel)
	handle, _ := o.Export(channel, 5)
	if _, status := o.Import(channel, handle); status != wire.StatusOk {
		t.Errorf("import: status %d", status)
	}
	<-held
	_, status := o.Import(channel, handle)
	owed := 0
	e.HandOwed(&w.offers, func(_ handover.Object, file int) {
		handover.CloseFiles([]int{file})
		owed++
	})
	if status != wire.StatusOk || owed != 1 {
		t.Errorf("import when workers may be saved: status %d, %d are owed", status, owed)
	}
	e.Clear()
}
