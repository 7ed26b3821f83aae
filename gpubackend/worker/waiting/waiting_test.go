// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
)

// device notes its calls. ready is the state of all its work.
type device struct {
	ready     gpubackend.Result
	asked     []string
	set       gpubackend.Result
	announces bool
	announced []uint32 // the answers that it is to write
	told      int      // how many announcements have arrived
	sees      bool     // it sees that the work is over
	registers gpubackend.Result
	areas     int // that were registered
	marks     gpubackend.Result
}

func (d *device) ask(what string) gpubackend.Result {
	d.asked = append(d.asked, what)
	return d.ready
}

func (d *device) ContextQuery() gpubackend.Result                 { return d.ask("context") }
func (d *device) StreamQuery(gpubackend.Stream) gpubackend.Result { return d.ask("stream") }
func (d *device) EventQuery(gpubackend.Event) gpubackend.Result   { return d.ask("event") }
func (d *device) Passed(fences.Fence) gpubackend.Result           { return d.ask("fence") }
func (d *device) Set(uint64, bool) gpubackend.Result              { return d.set }
func (d *device) Announced(uint64, uint32) bool                   { d.told++; return d.sees }
func (d *device) Find(*call.Call, uint64) (gpubackend.Stream, gpubackend.Result) {
	return 7, gpubackend.Success
}
func (d *device) Mark(gpubackend.Stream) (fences.Fence, gpubackend.Result) {
	return fences.Fence{}, d.marks
}
func (d *device) HostRegister(uint64, uint64, bool) gpubackend.Result {
	d.areas++
	return d.registers
}
func (d *device) Announce(_ gpubackend.Stream, _ bool, _ uint64, value uint32) gpubackend.Result {
	if !d.announces {
		return gpubackend.NotSupported
	}
	d.announced = append(d.announced, value)
	return gpubackend.Success
}

// answer is a call's answer.
type answer struct {
	slot   uint16
	seq    uint32
	reply  bool
	result gpubackend.Result
	word   uint64
}

type rig struct {
	*Waiting
	t       *testing.T
	device  device
	objects object.Table
	mem     []byte
	answers []answer
	ended   int
	woken   int
	may     bool
	polled  int
	command arena.Command
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, mem: make([]byte, arena.MinBytes), may: true}
	r.device = device{ready: gpubackend.NotReady, sees: true}
	a, err := arena.New(r.mem)
	if err != nil {
		t.Fatal(err)
	}
	r.Waiting = New(Config{
		Driver: &r.device, Contexts: &r.device, Fences: &r.device, Streams: &r.device,
		Objects: &r.objects, Arena: func() Arena { return a },
		Finish: func(
			slot uint16, seq uint32, reply bool, result gpubackend.Result, words []uint64,
		) {
			x := answer{slot, seq, reply, result, 0}
			if len(words) > 0 {
				x.word = words[0]
			}
			r.answers = append(r.answers, x)
		},
		WakeGuest: func() { r.woken++ }, Ended: func() { r.ended++ },
		Gate: r, PollAll: func() { r.polled++; r.Poll() },
	})
	return r
}

// MayAnnounce is what the gate answers.
func (r *rig) MayAnnounce() bool { return r.may }

// call is one that a thread of the guest's makes from a slot.
func (r *rig) call(op gpubackend.Op, slot uint16, words ...uint64) *call.Call {
	r.command = arena.Command{N: len(words)}
	r.command.Op, r.command.Flags = uint16(op), wire.CommandFlagReply
	r.command.Slot, r.command.Seq, r.command.Context = slot, uint32(slot)+100, 5
	copy(r.command.Words[:], words)
	c := call.New(nil)
	c.Start(&r.command)
	return &c
}

// run executes a command.
func (r *rig) run(op gpubackend.Op, slot uint16, words ...uint64) gpubackend.Result {
	return r.Handlers()[op].Run(r.call(op, slot, words...))
}

// TestCallsWait: a call whose work is done is answered at once. Another one is answered when it is
// polled after its work is done, with the work's result.
func TestCallsWait(t *testing.T) {
	r := newRig(t)
	e := r.objects.Add(object.Event, 3, 0)
	for _, x := range []struct {
		op    gpubackend.Op
		words []uint64
		asks  string
	}{
		{gpubackend.OpCtxSynchronize, nil, "context"},
		{gpubackend.OpStreamSynchronize, []uint64{0}, "stream"},
		{gpubackend.OpEventSynchronize, []uint64{e}, "event"},
	} {
		r.device.ready, r.device.asked, r.answers, r.ended = gpubackend.Success, nil, nil, 0
		if got := r.run(x.op, 1, x.words...); got != gpubackend.Success || r.Len() != 0 ||
			r.ended != 1 {
			t.Errorf("%s of what is done: %v, %d wait", x.op.Name(), got, r.Len())
		}
		r.device.ready = gpubackend.NotReady
		if got := r.run(x.op, 2, x.words...); got != call.Pending || r.Len() != 1 {
			t.Errorf("%s: %v, %d wait", x.op.Name(), got, r.Len())
		}
		if r.Poll() || len(r.answers) > 0 {
			t.Errorf("%s: answered %v before it is done", x.op.Name(), r.answers)
		}
		r.device.ready = gpubackend.IllegalAddress
		if !r.Poll() || !slices.Equal(r.answers,
			[]answer{{2, 102, true, gpubackend.IllegalAddress, 0}}) || r.Len() != 0 {
			t.Errorf("%s: answers %v, %d wait", x.op.Name(), r.answers, r.Len())
		}
		if want := []string{x.asks, x.asks, x.asks, x.asks}; !slices.Equal(r.device.asked, want) {
			t.Errorf("%s asks for %v", x.op.Name(), r.device.asked)
		}
	}
	if got := r.run(gpubackend.OpEventSynchronize, 1, 77); got != gpubackend.InvalidHandle {
		t.Errorf("a forged event: %v", got)
	}
}

// TestManyCalls: each call is answered once, in whatever order they are over, and the number of
// calls that wait is bounded.
func TestManyCalls(t *testing.T) {
	r := newRig(t)
	for slot := range uint16(Most) {
		if r.Full() {
			t.Fatalf("full with %d calls", slot)
		}
		r.run(gpubackend.OpCtxSynchronize, slot)
	}
	if !r.Full() || r.Len() != Most {
		t.Fatalf("%d wait", r.Len())
	}
	odd := &work{result: gpubackend.Success}
	r.Await(r.call(0, 9999), odd)
	r.Poll()
	if !slices.Equal(r.answers, []answer{{9999, 10099, true, gpubackend.Success, 0}}) {
		t.Fatalf("answers %v", r.answers)
	}
	r.device.ready = gpubackend.Success
	r.Poll()
	seen := map[uint16]bool{}
	for _, x := range r.answers {
		if seen[x.slot] {
			t.Fatalf("slot %d is answered twice", x.slot)
		}
		seen[x.slot] = true
	}
	if len(seen) != Most+1 || r.Len() != 0 {
		t.Errorf("%d answers, %d wait", len(seen), r.Len())
	}
}

// work is a room's work.
type work struct {
	result gpubackend.Result
	silent bool // the caller isn't answered
	over   []gpubackend.Result
}

func (w *work) Advance() gpubackend.Result { return w.result }
func (w *work) Over(result gpubackend.Result) bool {
	w.over = append(w.over, result)
	return !w.silent
}

// TestWorkOfRooms: a room gets the result of its work, and says whether the caller is answered with
// it.
func TestWorkOfRooms(t *testing.T) {
	r := newRig(t)
	for _, silent := range []bool{false, true} {
		w := &work{result: gpubackend.NotReady, silent: silent}
		r.answers = nil
		r.Await(r.call(0, 3), w)
		r.Poll()
		if len(w.over) > 0 {
			t.Fatal("it is over")
		}
		w.result = gpubackend.InvalidValue
		if !r.Poll() || !slices.Equal(w.over, []gpubackend.Result{gpubackend.InvalidValue}) ||
			(len(r.answers) == 0) != silent {
			t.Errorf("silent %v: over %v, answers %v", silent, w.over, r.answers)
		}
	}
}

// TestWhenIdle: an action is done once, after the work, and not if the work has failed.
func TestWhenIdle(t *testing.T) {
	for _, x := range []struct {
		first, then gpubackend.Result // of the work
		context     uint64
		did         int
		result      gpubackend.Result // that the caller gets
		word        uint64
	}{
		{gpubackend.Success, 0, 5, 1, gpubackend.NotFound, 42},
		{gpubackend.NotReady, gpubackend.Success, 5, 1, gpubackend.NotFound, 42},
		{gpubackend.NotReady, gpubackend.IllegalAddress, 5, 0, gpubackend.IllegalAddress, 0},
		{gpubackend.IllegalAddress, 0, 5, 0, gpubackend.IllegalAddress, 0},
		{gpubackend.InvalidContext, 0, 0, 1, gpubackend.NotFound, 42}, // there is no work
	} {
		r, did := newRig(t), 0
		r.device.ready = x.first
		c := r.call(0, 1)
		c.Context = x.context
		result := r.WhenIdle(c, func() (uint64, gpubackend.Result) {
			did++
			return 42, gpubackend.NotFound
		})
		var word uint64
		if result == call.Pending {
			if did > 0 {
				t.Errorf("%+v: done before the work", x)
			}
			r.device.ready = x.then
			r.Poll()
			result, word = r.answers[0].result, r.answers[0].word
		} else if len(c.Answers()) > 0 {
			word = c.Answers()[0]
		}
		if did != x.did || result != x.result || word != x.word {
			t.Errorf("%+v: done %d times, %v, %d", x, did, result, word)
		}
	}
}

// TestAnnouncedAnswers: only the device writes the answer, and the driver is told.
func TestAnnouncedAnswers(t *testing.T) {
	for _, sees := range []bool{true, false} {
		r := newRig(t)
		r.device.announces, r.device.sees = true, sees
		if got := r.run(gpubackend.OpStreamSynchronize, 0, 0); got != call.Pending {
			t.Fatal(got)
		}
		if slot, seq, ok := r.Announced(); !ok || slot != 0 || seq != 100 ||
			!slices.Equal(r.device.announced, []uint32{100}) || len(r.device.asked) > 0 {
			t.Fatalf("%d, %d, %v; announced %v, asked %v", slot, seq, ok, r.device.announced,
				r.device.asked)
		}
		for range 3 * FailurePolls {
			if r.Poll() {
				t.Fatal("answered before the device wrote")
			}
		}
		if len(r.device.asked) != 3 {
			t.Errorf("the driver was asked %d times", len(r.device.asked))
		}
		binary.LittleEndian.PutUint32(r.mem[wire.Slots:], 100)
		if !r.Poll() || r.Len() != 0 || len(r.answers) > 0 || r.woken != 1 || r.device.told != 1 {
			t.Errorf("answers %v, woken %d times, told %d times", r.answers, r.woken, r.device.told)
		}
		if (r.ended == 1) != sees {
			t.Errorf("the end was seen: %v, told %d times", sees, r.ended)
		}
		asked := len(r.device.asked)
		r.Settle()
		r.Settle()
		if again := len(r.device.asked) - asked; (again == 0) != sees || again > 1 || r.ended != 1 {
			t.Errorf("settled: asked %d times, told %d times", again, r.ended)
		}
		// Work that fails announces nothing.
		r.run(gpubackend.OpStreamSynchronize, 1, 0)
		r.device.ready = gpubackend.IllegalAddress
		for range FailurePolls {
			r.Poll()
		}
		if !slices.Equal(r.answers, []answer{{1, 101, true, gpubackend.IllegalAddress, 0}}) {
			t.Errorf("failure: %v", r.answers)
		}
	}
}

// TestNotAnnounced: a call whose answer the device can't write waits as others do.
func TestNotAnnounced(t *testing.T) {
	for name, do := range map[string]func(*rig, *call.Call){
		"the device can't":   func(r *rig, _ *call.Call) { r.device.announces = false },
		"the gate is closed": func(r *rig, _ *call.Call) { r.may = false },
		"the slots aren't the device's": func(r *rig, _ *call.Call) {
			r.device.registers = gpubackend.NotSupported
		},
		"nobody waits":          func(_ *rig, c *call.Call) { c.Flags = 0 },
		"there is no such slot": func(_ *rig, c *call.Call) { c.Slot = wire.SlotCount },
	} {
		r := newRig(t)
		r.device.announces = true
		for range 2 {
			c := r.call(gpubackend.OpCtxSynchronize, 1)
			do(r, c)
			if got := r.Synchronize(c, 7); got != call.Pending {
				t.Errorf("%s: %v", name, got)
			}
		}
		if len(r.device.announced) > 0 || r.Len() != 2 || r.device.areas > 1 {
			t.Errorf("%s: announced %v, %d wait, %d areas registered", name, r.device.announced,
				r.Len(), r.device.areas)
		}
		if _, _, ok := r.Announced(); ok {
			t.Errorf("%s: two calls are one answer of the device's", name)
		}
	}
}

// TestWhenDone: a fence shows when the work in a stream is over, if the device doesn't announce it.
func TestWhenDone(t *testing.T) {
	r := newRig(t)
	if got := r.WhenDone(r.call(0, 1), 7); got != call.Pending {
		t.Fatal(got)
	}
	r.device.ready = gpubackend.Success
	if !r.Poll() || !slices.Equal(r.device.asked, []string{"fence"}) {
		t.Errorf("asked for %v", r.device.asked)
	}
	r.device.marks = gpubackend.OutOfMemory
	if got := r.WhenDone(r.call(0, 1), 7); got != gpubackend.OutOfMemory || r.Len() != 0 {
		t.Errorf("without a fence: %v, %d wait", got, r.Len())
	}
	r.device.announces = true
	if got := r.WhenDone(r.call(0, 1), 7); got != call.Pending || len(r.device.announced) != 1 {
		t.Errorf("announced: %v, %v", got, r.device.announced)
	}
}

// TestWhatIsGone: a call that waits for a stream or event that is destroyed then waits for all of
// its context. A stream or event that stays is queried as before.
func TestWhatIsGone(t *testing.T) {
	r := newRig(t)
	e := r.objects.Add(object.Event, 3, 0)
	for _, x := range []struct {
		wait, end gpubackend.Op
		words     []uint64
	}{
		{gpubackend.OpStreamSynchronize, gpubackend.OpStreamDestroy, []uint64{0}},
		{gpubackend.OpEventSynchronize, gpubackend.OpEventDestroy, []uint64{e}},
	} {
		r.run(x.wait, 1, x.words...)
		for _, result := range []gpubackend.Result{gpubackend.InvalidHandle, gpubackend.Success} {
			ran := r.Steps()[x.end](r.call(x.end, 2, x.words...),
				func(*call.Call) gpubackend.Result { return result })
			r.device.asked = nil
			r.Poll()
			gone := slices.Equal(r.device.asked, []string{"context"})
			if ran != result || gone != (result == gpubackend.Success) {
				t.Errorf("%s: %v, then asked for %v", x.end.Name(), ran, r.device.asked)
			}
		}
		r.device.ready = gpubackend.Success
		r.Poll()
		r.device.ready = gpubackend.NotReady
	}
}

// TestQueryAfterAnAnswer: a stream is queried after all answers were seen, in the caller's context.
func TestQueryAfterAnAnswer(t *testing.T) {
	r := newRig(t)
	query := r.Steps()[gpubackend.OpStreamQuery]
	ran := 0
	run := func(*call.Call) gpubackend.Result { ran++; return gpubackend.NotReady }
	if got := query(r.call(gpubackend.OpStreamQuery, 1, 0), run); got != gpubackend.NotReady ||
		r.polled != 1 || ran != 1 {
		t.Errorf("%v, polled %d times, ran %d times", got, r.polled, ran)
	}
	r.device.set = gpubackend.InvalidContext
	got := query(r.call(gpubackend.OpStreamQuery, 1, 0), run)
	if got != gpubackend.InvalidContext || ran != 1 {
		t.Errorf("in a context that is gone: %v, ran %d times", got, ran)
	}
}

// TestNothingIsAllocated: calls that begin to wait, are polled and are answered allocate no memory.
func TestNothingIsAllocated(t *testing.T) {
	r := newRig(t)
	r.Finish = func(uint16, uint32, bool, gpubackend.Result, []uint64) { r.ended++ }
	c, failed := r.call(gpubackend.OpStreamSynchronize, 1, 0), errors.New("")
	run := r.Handlers()[gpubackend.OpStreamSynchronize].Run
	r.device.asked = make([]string, 0, 1<<16)
	n := testing.AllocsPerRun(100, func() {
		r.device.ready = gpubackend.NotReady
		if run(c) != call.Pending || r.Poll() {
			panic(failed)
		}
		r.device.ready = gpubackend.Success
		if !r.Poll() {
			panic(failed)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
