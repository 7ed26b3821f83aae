// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// worker answers as the test says.
type worker struct {
	peer   Peer
	killed atomic.Bool
	offers exports.Worker
}

// newWorker has a worker that answers a message with what says returns; nil: nothing.
func newWorker(
	t *testing.T, e *exports.Exports, says func(m *handover.Message) *handover.Message,
) *worker {
	t.Helper()
	near, remote, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	other, err := handover.NewConn(remote)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{}
	conn := child.New(near, time.Minute, func(m *handover.Message, fds []int) {
		e.Receive(&w.offers, m, fds)
	}, func(f func()) { go f() })
	w.peer = Peer{Conn: conn, Offers: &w.offers, Kill: func() { w.killed.Store(true) }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer other.Close()
		for {
			m, fds, err := other.Receive()
			handover.CloseFiles(fds)
			if err != nil {
				return
			}
			if m.Kind == handover.KindSync {
				offer(t, other, 5)
			}
			if a := says(m); a != nil {
				_ = other.Send(a, nil)
			}
		}
	}()
	t.Cleanup(func() {
		_ = other.Close()
		<-done
		conn.Close()
		e.Ended(&w.offers)
	})
	return w
}

// offer has a worker offer memory.
func offer(t *testing.T, c *handover.Conn, number uint32) {
	t.Helper()
	fd, err := unix.MemfdCreate("object", unix.MFD_CLOEXEC)
	if err != nil {
		t.Error(err)
		return
	}
	defer unix.Close(fd)
	m := &handover.Message{Kind: handover.KindOffer, Object: &handover.Object{
		Kind: handover.ObjectMemory, Number: number, Bytes: 4096, ID: 99, Own: true,
	}, Files: handover.Files{Object: true}}
	if err := c.Send(m, []int{fd}); err != nil {
		t.Error(err)
	}
}

// polite is how a worker answers that does what it is asked.
func polite(m *handover.Message) *handover.Message {
	switch m.Kind {
	case handover.KindSync:
		return &handover.Message{Kind: handover.KindSynced}
	case handover.KindImport:
		return &handover.Message{Kind: handover.KindTaken}
	}
	return nil
}

func newObjects(workers map[int]*worker, e *exports.Exports) *Objects {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return &Objects{Exports: e, Answer: time.Minute, Log: logrus.NewEntry(log),
		Worker: func(channel int) (Peer, uint64, bool) {
			w, ok := workers[channel]
			if !ok {
				return Peer{}, 0, false
			}
			return w.peer, 1 << 20, true
		}}
}

// TestFromOneToAnother: an offer that is on its way is waited for, and its object goes to another
// worker.
func TestFromOneToAnother(t *testing.T) {
	e := exports.New(1 << 20)
	t.Cleanup(e.Clear)
	o := newObjects(map[int]*worker{0: newWorker(t, e, polite), 1: newWorker(t, e, polite)}, e)
	for _, status := range []func() (uint32, uint32){
		func() (uint32, uint32) { return o.Export(7, 5) },
		func() (uint32, uint32) { return o.Import(7, 5) },
	} {
		if _, got := status(); got != wire.StatusBadRequest {
			t.Errorf("a channel without a worker: status %d", got)
		}
	}
	handle, status := o.Export(0, 5)
	if status != wire.StatusOk {
		t.Fatalf("export: status %d", status)
	}
	if _, status := o.Export(0, 6); status != wire.StatusNoObject {
		t.Errorf("export of nothing: status %d", status)
	}
	if number, status := o.Import(1, handle); status != wire.StatusOk || number == 0 {
		t.Errorf("import: %d, status %d", number, status)
	}
	if _, status := o.Import(1, handle+1); status != wire.StatusNoObject {
		t.Errorf("import of nothing: status %d", status)
	}
}

// TestWorkerThatDoesNot what it is asked: it may say so, and is killed if it doesn't answer.
func TestWorkerThatDoesNot(t *testing.T) {
	for name, x := range map[string]struct {
		says   func(m *handover.Message) *handover.Message
		status uint32
		killed bool
	}{
		"refuses": {func(m *handover.Message) *handover.Message {
			a := polite(m)
			a.Error = "no"
			return a
		}, wire.StatusLimit, false},
		"is silent": {func(*handover.Message) *handover.Message { return nil },
			wire.StatusNoWorker, true},
	} {
		e := exports.New(1 << 20)
		t.Cleanup(e.Clear)
		good, bad := newWorker(t, e, polite), newWorker(t, e, x.says)
		o := newObjects(map[int]*worker{0: good, 1: bad}, e)
		handle, status := o.Export(0, 5)
		if status != wire.StatusOk {
			t.Fatalf("export: status %d", status)
		}
		if x.killed {
			o.Answer = 100 * time.Millisecond
		}
		if _, status := o.Export(1, 6); status != x.status || bad.killed.Swap(false) != x.killed {
			t.Errorf("%s, export: status %d", name, status)
		}
		if _, status := o.Import(1, handle); status != x.status || bad.killed.Load() != x.killed {
			t.Errorf("%s, import: status %d", name, status)
		}
		if good.killed.Load() {
			t.Errorf("%s: the other one is killed", name)
		}
	}
}
