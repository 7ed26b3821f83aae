// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/eventfd"
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
	"github.com/paracuda/paracuda/gpubackend/worker/standstill"
)

// connect gives the worker a connection to a device process, whose part the test plays.
func (r *rig) connect(t *testing.T) *handover.Conn {
	t.Helper()
	near := r.dial(t)
	r.messages = make(chan inbox.Received, 16)
	r.withQueue(t)
	return near
}

// dial is connect for a worker that has its queue already.
func (r *rig) dial(t *testing.T) *handover.Conn {
	t.Helper()
	near, far, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if r.control, err = handover.NewConn(far); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); r.control.Close() })
	return near
}

// say queues a message for the worker.
func (r *rig) say(m handover.Message, fds ...int) {
	r.messages <- inbox.Received{Message: &m, Files: fds}
}

func answerOf(t *testing.T, c *handover.Conn) *handover.Message {
	t.Helper()
	m, _, err := c.Receive()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMovingMemory: a worker moves its memory only when it is drained, and then as it is told.
func TestMovingMemory(t *testing.T) {
	r := newRig(t)
	r.driver.memory = []byte("content of some device memory")
	device := r.connect(t)
	out := handover.Message{Kind: handover.KindMoveOut, Bytes: uint64(len(r.driver.memory))}
	drain := handover.Message{Kind: handover.KindDrain, Grace: time.Minute, Turn: 3}
	r.say(out)
	r.say(handover.Message{Kind: handover.KindMoveIn})
	r.say(drain)
	r.say(out)
	r.say(handover.Message{Kind: handover.KindMoveOut})
	r.say(handover.Message{Kind: handover.KindMoveIn})
	r.say(handover.Message{Kind: handover.KindMoveOut})
	r.say(handover.Message{Kind: handover.KindMoveIn})
	r.say(drain)
	r.say(handover.Message{Kind: handover.KindGoOn})
	for range 3 {
		if err := r.handle(<-r.messages); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []struct {
		kind handover.Kind
		bad  bool
	}{
		{handover.KindMovedOut, true}, {handover.KindMovedIn, true}, {handover.KindDrained, false},
		{handover.KindMovedOut, false}, {handover.KindMovedOut, true},
		{handover.KindMovedIn, false}, {handover.KindMovedOut, false},
		{handover.KindMovedIn, false}, {handover.KindDrained, false},
	} {
		m := answerOf(t, device)
		if m.Kind != want.kind || (m.Error != "") != want.bad ||
			m.Kind == handover.KindDrained && (m.Turn != 3 || m.Bytes != 29) {
			t.Errorf("answer %d: %+v", i, m)
		}
	}
	if string(r.driver.memory) != "content of some device memory" || r.driver.away {
		t.Errorf("memory has %q", r.driver.memory)
	}
	if len(r.messages) > 0 || !r.standstill.Free() {
		t.Errorf("%d messages are left, free %v", len(r.messages), r.standstill.Free())
	}
}

// TestDrainEnds: a worker whose work goes on says so, and goes on as before, at the end of the
// grace time or when it is told to.
func TestDrainEnds(t *testing.T) {
	r := newRig(t)
	device := r.connect(t)
	r.objects.Add(object.Context, 7, 0)
	busy := busyContext{r.driver, 7}
	r.use(busy)
	r.say(handover.Message{Kind: handover.KindDrain, Grace: 10 * time.Millisecond, Turn: 1})
	if err := r.handle(<-r.messages); err != nil {
		t.Fatal(err)
	}
	if m := answerOf(t, device); m.Error != standstill.ErrWorks.Error() || m.Turn != 1 ||
		!r.standstill.Free() {
		t.Fatalf("%+v, free %v", m, r.standstill.Free())
	}
	// Told to go on while it drains, it refuses at once.
	r.say(handover.Message{Kind: handover.KindDrain, Grace: time.Hour, Turn: 2})
	r.say(handover.Message{Kind: handover.KindGoOn})
	if err := r.handle(<-r.messages); err != nil {
		t.Fatal(err)
	}
	if m := answerOf(t, device); m.Error == "" || m.Turn != 2 || !r.standstill.Free() {
		t.Fatalf("%+v, free %v", m, r.standstill.Free())
	}
}

// TestCopyAfterRecall: memory that was taken back is lent again when the rest of its copy begins.
func TestCopyAfterRecall(t *testing.T) {
	r, _, m := newLoanRig(t)
	may := r.copies.May
	r.copies.May = func() bool { return false } // as while it drains
	r.sendCopy(gpubackend.OpCopyDtoH, 1, lentBase, 1<<20)
	r.work(t)
	if len(m.attached) != 1 || len(m.started) != 0 {
		t.Fatalf("lent %v, %d copies started", m.attached, len(m.started))
	}
	if !r.standstill.StandsStill() {
		t.Fatal("it doesn't stand still")
	}
	r.copies.Recall()
	if len(m.detached) != 1 {
		t.Fatalf("taken back: %v", m.detached)
	}
	r.copies.May = may
	r.work(t)
	if len(m.attached) != 2 || len(m.started) != 1 {
		t.Fatalf("lent %v, %d copies started", m.attached, len(m.started))
	}
	m.end(nil)
	r.work(t)
	if s := r.slot(); s.Done != 1 || s.Result != 0 {
		t.Fatalf("%+v", s)
	}
}

// TestHeldWaitsForAKick: a worker that is held says that it sleeps, and tells of work when it is
// kicked for it, once.
func TestHeldWaitsForAKick(t *testing.T) {
	r := newRig(t)
	device := r.connect(t)
	position := word(r.mem[wire.ArenaHeaderAppendedOffset:])
	sleeping := word(r.mem[wire.ArenaHeaderWorkerSleepingOffset:])
	r.send(gpubackend.OpCtxSynchronize, true, 1, nil)
	appended := atomic.SwapUint32(position, 0) // not yet
	ended := make(chan error)
	drain := handover.Message{Kind: handover.KindDrain, Grace: time.Minute, Turn: 1}
	go func() { ended <- r.handle(inbox.Received{Message: &drain}) }()
	if m := answerOf(t, device); m.Kind != handover.KindDrained || m.Error != "" {
		t.Fatalf("%+v", m)
	}
	for end := time.Now().Add(time.Minute); atomic.LoadUint32(sleeping) != 1; {
		if time.Now().After(end) {
			t.Fatal("it doesn't say that it sleeps")
		}
		time.Sleep(time.Millisecond)
	}
	eventfd.Notify(r.kick) // for nothing
	atomic.StoreUint32(position, appended)
	eventfd.Notify(r.kick)
	if m := answerOf(t, device); m.Kind != handover.KindWake {
		t.Fatalf("%+v", m)
	}
	eventfd.Notify(r.kick) // it has told that
	r.say(handover.Message{Kind: handover.KindMoveIn})
	r.files.Wake()
	if m := answerOf(t, device); m.Kind != handover.KindMovedIn {
		t.Fatalf("%+v", m)
	}
	r.say(handover.Message{Kind: handover.KindGoOn})
	r.files.Wake()
	if err := <-ended; err != nil || !r.standstill.Free() || atomic.LoadUint32(sleeping) != 0 {
		t.Errorf("%v, free %v", err, r.standstill.Free())
	}
}
