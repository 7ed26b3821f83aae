// SPDX-License-Identifier: Apache-2.0

package standstill

import (
	"errors"
	"io"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/lanes"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
)

// TestMoving: memory is moved only while all stands still, and then as it is told.
func TestMoving(t *testing.T) {
	w := newWorld(t)
	w.say(handover.KindMoveOut, 29)
	w.say(handover.KindMoveIn, 0)
	w.say(handover.KindDrain, 0)
	w.say(handover.KindMoveOut, 29)
	w.say(handover.KindMoveIn, 0)
	w.say(handover.KindMoveOut, 0)
	w.say(handover.KindDrain, 0)
	w.say(handover.KindGoOn, 0)
	w.run()
	want := []string{"movedout!", "movedin!", "drained", "movedout", "movedin", "movedout",
		"drained"}
	if got := w.kinds(); !slices.Equal(got, want) {
		t.Errorf("sent %v", got)
	}
	if got := []string{"flush", "chains", "standstill", "begin", "out 29", "in", "back",
		"end"}; !slices.Equal(w.did, got) {
		t.Errorf("did %v", w.did)
	}
	if m := w.sent[3]; m.Unchanged != 14 || m.Keep {
		t.Errorf("%+v", m)
	}
	if m := w.sent[2]; m.Turn != 3 || m.Bytes != 29 || !w.Free() {
		t.Errorf("%+v, free %v", m, w.Free())
	}
	w.moves = errors.New("some reason")
	if w.GoOn() == nil {
		t.Error("it goes on without its memory")
	}
}

// TestDrain: it is over when all stands still, and given up when the time is, or when the device
// process says so.
func TestDrain(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(*world)
		whole bool
		why   string // it isn't drained
	}{
		"nothing under way": {do: func(*world) {}},
		"work that ends": {do: func(w *world) {
			w.ready, w.readyAfter = gpubackend.NotReady, 3
		}},
		"work that goes on": {do: func(w *world) {
			w.ready, w.readyAfter = gpubackend.NotReady, 1<<30
		}, why: ErrWorks.Error()},
		"a copy":              {do: func(w *world) { w.copying = true }, why: ErrWorks.Error()},
		"a capture that ends": {do: func(w *world) { w.captures = 2 }},
		"a capture": {do: func(w *world) { w.captures = 1 << 30 },
			why: errCaptures.Error()},
		"a call": {do: func(w *world) { w.calls = 1 }},
		"a call, as a whole": {do: func(w *world) { w.calls = 1 }, whole: true,
			why: "busy: its work goes on: stop-grace=5ms is how long work may take"},
		"an answer, as a whole": {do: func(w *world) { w.calls, w.answers = 1, 1 },
			whole: true},
		"a program that begins, as a whole": {do: func(w *world) { w.begins = 3 }, whole: true},
		"a program that doesn't begin": {do: func(w *world) { w.begins = 1 << 30 }, whole: true,
			why: "busy: its work goes on: stop-grace=5ms is how long work may take"},
		"a program that needn't have begun": {do: func(w *world) { w.begins = 1 << 30 }},
		"what can't be saved": {do: func(w *world) { w.unsavable = errors.New("managed") },
			whole: true, why: "managed"},
		"what needn't be": {do: func(w *world) { w.unsavable = errors.New("managed") }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.do(w)
			m := &handover.Message{Grace: time.Minute, Whole: c.whole}
			if w.goOn = c.why == ""; !w.goOn {
				m.Grace = 5 * time.Millisecond
			}
			if err := w.Drain(m); err != nil {
				t.Fatal(err)
			}
			works := c.why != "" && name != "a program that doesn't begin" &&
				name != "what can't be saved"
			if got := w.sent[0]; got.Kind != handover.KindDrained || got.Error != c.why ||
				got.Busy != works {
				t.Errorf("%+v", got)
			}
			if !w.Free() {
				t.Error("it is held still")
			}
		})
	}
}

// TestDrainIsGivenUp: a worker that is told to go on while it drains does, also if its work has
// ended just then, and says that it isn't drained; one whose connection ends does, too.
func TestDrainIsGivenUp(t *testing.T) {
	var w *world
	for _, after := range []int{1 << 30, 2} {
		w = newWorld(t)
		w.ready, w.readyAfter = gpubackend.NotReady, after
		w.say(handover.KindGoOn, 0)
		if err := w.Drain(&handover.Message{Grace: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if w.sent[0].Error != ErrWorks.Error() || !w.Free() {
			t.Errorf("%+v, free %v", w.sent[0], w.Free())
		}
	}
	w.readyAfter = 1 << 30
	w.messages <- inbox.Received{Err: io.EOF}
	if err := w.Drain(&handover.Message{Grace: time.Hour}); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}

// TestDrainsMeanwhile: while it drains, nothing else is to be begun.
func TestDrainsMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.goOn = true
	w.onTake = func() {
		if !w.Drains() {
			t.Error("it doesn't drain")
		}
	}
	if err := w.Drain(&handover.Message{Grace: time.Minute}); err != nil || w.Drains() {
		t.Errorf("%v, drains %v", err, w.Drains())
	}
}

// TestPause: the guest's memory is left alone when nothing is under way, until the queue is back;
// and calls whose work is done are answered before, but not for ever.
func TestPause(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*world)
		left int // calls that still wait
	}{
		"nothing under way": {func(*world) {}, 0},
		"work that ends":    {func(w *world) { w.ready, w.readyAfter = gpubackend.NotReady, 3 }, 0},
		"work that awaits the guest": {func(w *world) {
			w.ready, w.readyAfter, w.awaitsHost = gpubackend.NotReady, 1<<30, true
		}, 0},
		"calls whose work is done": {func(w *world) { w.calls, w.answers = 3, 3 }, 0},
		"calls whose work isn't":   {func(w *world) { w.calls, w.answers = 3, 1 }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.do(w)
			w.onMark = func() { w.say(handover.KindResume, 0) }
			if err := w.Pause(time.Minute); err != nil {
				t.Fatal(err)
			}
			want := []string{"flush", "standstill", "paused", "begin"}
			if !slices.Equal(w.did, want) || !slices.Equal(w.kinds(), []string{"paused"}) {
				t.Errorf("did %v, sent %v", w.did, w.kinds())
			}
			if w.calls != c.left || !w.Free() {
				t.Errorf("%d calls wait, free %v", w.calls, w.Free())
			}
		})
	}
}

// TestPauseWhileMemoryIsOut: nothing is answered then, as that may begin something; and the worker
// is held until both are over.
func TestPauseWhileMemoryIsOut(t *testing.T) {
	w := newWorld(t)
	w.calls, w.answers = 1, 1
	w.say(handover.KindPause, 0)
	w.say(handover.KindResume, 0)
	w.goOn = true
	if err := w.Drain(&handover.Message{Grace: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if w.answers > 0 {
		t.Error("it was drained without its calls being looked at")
	}
	w.calls, w.answers, w.still = 1, 1, true
	w.say(handover.KindResume, 0)
	if err := w.Pause(time.Minute); err != nil {
		t.Fatal(err)
	}
	if w.answers != 1 || w.calls != 1 || !w.Free() {
		t.Errorf("%d answers are left, %d calls wait, free %v", w.answers, w.calls, w.Free())
	}
}

// TestCallsOfTheHeld: a call is answered whose work ends when the worker is about to be held, and
// the guest is told of it. One that still waits is work.
func TestCallsOfTheHeld(t *testing.T) {
	for name, c := range map[string]struct {
		late int
		sent []string
		did  []string
	}{
		"over":    {1, []string{"drained"}, []string{"chains", "chains", "chains", "await"}},
		"waiting": {0, []string{"drained", "wake"}, []string{"chains"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.calls, w.late, w.goOn = 1, c.late, true
			if err := w.Drain(&handover.Message{Grace: time.Minute}); err != nil {
				t.Fatal(err)
			}
			did := slices.DeleteFunc(slices.Clone(w.did), func(s string) bool {
				return s != "chains" && s != "await"
			})
			if !slices.Equal(w.kinds(), c.sent) || !slices.Equal(did, c.did) {
				t.Errorf("sent %v, did %v", w.kinds(), w.did)
			}
		})
	}
}

// TestHeldFromTheBeginning: a worker of a VM that is suspended says that its program is there, and
// tells of work once; one without a queue waits for it.
func TestHeldFromTheBeginning(t *testing.T) {
	w := newWorld(t)
	w.say(handover.KindGoOn, 0)
	if err := w.Start(true, false); err != nil || !slices.Equal(w.kinds(), []string{"wake"}) {
		t.Errorf("%v, sent %v", err, w.kinds())
	}
	w.sent = nil
	w.say(handover.KindResume, 0)
	if err := w.Start(false, true); err != nil || len(w.sent) > 0 || !w.Free() {
		t.Errorf("%v, sent %v", err, w.kinds())
	}
	if err := w.Start(false, false); err != nil || !w.Free() {
		t.Errorf("%v, free %v", err, w.Free())
	}
	w.sent, w.work, w.goOn = nil, true, true
	if err := w.Drain(&handover.Message{Grace: time.Minute}); err != nil ||
		!slices.Equal(w.kinds(), []string{"drained", "wake"}) || !w.Free() {
		t.Errorf("%v, sent %v", err, w.kinds())
	}
}

// TestSave writes the program to the stream that it is given, and closes that.
func TestSave(t *testing.T) {
	for _, still := range []bool{false, true} {
		w := newWorld(t)
		w.still = still
		from, to, err := lanes.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var fds []int
		for _, fd := range to.FDs() {
			if fd, err = syscall.Dup(fd); err != nil {
				t.Fatal(err)
			}
			fds = append(fds, fd)
		}
		_ = to.Close()
		if err := w.Save(fds, savedvm.Nowhere); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(from)
		_ = from.Close()
		want := map[bool]string{true: "record"}[still]
		refused := w.sent[0].Error != ""
		if string(text) != want || err != nil || refused == still {
			t.Errorf("still %v: %q, %v, sent %+v", still, text, err, w.sent[0])
		}
		if err := w.Save(nil, savedvm.Nowhere); err != nil || w.sent[1].Error == "" {
			t.Errorf("without files: %v, %+v", err, w.sent[1])
		}
	}
}

// TestAllContexts: the one that is current isn't the only one that must be idle.
func TestAllContexts(t *testing.T) {
	w := newWorld(t)
	w.ready, w.readyAfter = gpubackend.NotReady, 1
	if w.StandsStill() {
		t.Error("it stands still with a busy context")
	}
	w.turns = 1
	if !w.StandsStill() {
		t.Error("it doesn't stand still with nothing to do")
	}
	w.copying = true
	if w.StandsStill() {
		t.Error("it stands still with a copy")
	}
}

// TestTakeOver: another device process is told how the worker is held. What the one before waits
// for is given up, answered to nobody, and leaves the worker free.
func TestTakeOver(t *testing.T) {
	for _, kind := range []handover.Kind{handover.KindPause, handover.KindDrain} {
		w := newWorld(t)
		w.ready, w.readyAfter = gpubackend.NotReady, 1<<30
		w.onTurn = func() {
			if paused, still := w.TakeOver(); paused || still {
				t.Errorf("%s: paused %v, still %v", kind, paused, still)
			}
		}
		w.say(kind, 0)
		w.run()
		if len(w.sent) > 0 || !w.Free() {
			t.Errorf("%s: sent %v, free %v", kind, w.kinds(), w.Free())
		}
		w.ready, w.onTurn = gpubackend.Success, nothing
		w.paused, w.still = true, true
		if paused, still := w.TakeOver(); !paused || !still {
			t.Errorf("then: paused %v, still %v", paused, still)
		}
	}
}
