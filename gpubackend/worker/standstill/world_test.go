// SPDX-License-Identifier: Apache-2.0

package standstill

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
)

// world is what a Halt has the worker do. It notes in which order.
type world struct {
	*Halt
	t        *testing.T
	objects  object.Table
	messages chan inbox.Received
	sent     []handover.Message
	did      []string

	ready      gpubackend.Result // of the device
	readyAfter int               // turns after which its work is done
	awaitsHost bool
	copying    bool
	calls      int // that wait
	answers    int // of them in the next polls
	late       int // of them whose work ends when the device is found idle
	captures   int
	begins     int  // commands until it has begun
	held       bool // host functions
	unsavable  error
	moves      error
	keeps      bool
	work       bool // commands are there
	goOn       bool // the device process says so when the worker is held
	turns      int
	asleep     bool

	onTake, onMark, onTurn func() // what else happens then
}

// The parts of the world.
type (
	device  struct{ *world }
	copies  struct{ *world }
	calls   struct{ *world }
	memory  struct{ *world }
	program struct{ *world }
)

func (w *world) do(what string, args ...any) { w.did = append(w.did, fmt.Sprintf(what, args...)) }

func (d device) Set(uint64, bool) gpubackend.Result { return gpubackend.Success }
func (d device) AwaitsHost() bool                   { return d.awaitsHost }
func (d device) ContextQuery() gpubackend.Result {
	if d.turns >= d.readyAfter {
		d.answers, d.late = d.answers+d.late, 0
		return gpubackend.Success
	}
	return d.ready
}
func (c copies) Poll()        {}
func (c copies) Active() bool { return c.copying }
func (c calls) Len() int      { return c.calls }

func (w *world) Hold()               { w.held = true }
func (w *world) LetGo()              { w.held = false }
func (w *world) Flush()              { w.do("flush") }
func (w *world) Captures() int       { return w.captures }
func (w *world) Standstill()         { w.do("standstill") }
func (w *world) Take() (bool, error) { w.do("chains"); w.onTake(); return true, nil }
func (w *world) Signal()             {}
func (w *world) MarkHeld()           { w.do("paused"); w.onMark() }
func (w *world) Turn()               { w.turns++; w.onTurn() }
func (w *world) SetAsleep(yes bool)  { w.asleep = yes }
func (w *world) Advance() bool {
	if w.held {
		w.t.Error("host functions are held while they are to go on")
	}
	return false
}
func (w *world) AwaitKick() (bool, error) {
	if !w.asleep {
		w.t.Error("the watchdog takes a worker that is held for one that hangs")
	}
	if w.do("await"); w.goOn {
		w.say(handover.KindGoOn, 0)
	} else if !w.work {
		w.t.Fatal("it waits for ever")
	}
	return w.work, nil
}

func (m memory) Plan(bool) uint64 { return 29 }
func (m memory) MoveOut(bytes uint64, keep bool) (uint64, error) {
	m.do("out %d", bytes)
	m.world.keeps = keep
	return bytes / 2, m.moves
}
func (m memory) Keeps() bool       { return m.world.keeps }
func (m memory) MoveBack() error   { m.do("back"); return m.moves }
func (m memory) MoveIn() error     { m.do("in"); return m.moves }
func (m memory) End() error        { m.do("end"); return m.moves }
func (p program) Begun() bool      { return p.begins <= 0 }
func (p program) Unsavable() error { return p.unsavable }
func (p program) Save(to io.Writer, _ savedvm.Rest) error {
	_, err := io.WriteString(to, "record")
	return err
}

func nothing() {}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, messages: make(chan inbox.Received, 16),
		onTake: nothing, onMark: nothing, onTurn: nothing}
	w.objects.Add(object.Context, 1, 0)
	w.Halt = New(Config{
		Driver: device{w}, Contexts: device{w}, Objects: &w.objects, Copies: copies{w},
		Calls: calls{w}, HostFuncs: w, Launcher: w, Graphs: w, Gate: w, Memory: memory{w},
		Program: program{w}, Sleeper: w,
		Send: func(m *handover.Message) error {
			w.sent = append(w.sent, *m)
			if w.goOn && w.calls > 0 && m.Kind == handover.KindWake {
				w.say(handover.KindGoOn, 0) // it isn't asked whether there are commands
			}
			return nil
		},
		Queue: w, Pages: w, Watchdog: w,
		Loop: Duties{
			Messages: func() <-chan inbox.Received { return w.messages },
			Obey:     w.obey,
			Poll: func() bool {
				if w.answers == 0 {
					return false
				}
				w.answers--
				w.calls--
				return true
			},
			Execute: func() error { w.do("execute"); w.captures--; w.begins--; return nil },
			Begin:   func() { w.do("begin") },
		},
	})
	return w
}

// obey gives a message to the Halt, as the worker does.
func (w *world) obey(r inbox.Received) error {
	if r.Err != nil {
		return r.Err
	}
	w.held = true
	switch m := r.Message; m.Kind {
	case handover.KindPause:
		return w.Pause(m.Grace)
	case handover.KindResume:
		if !w.Resume() {
			w.t.Error("it wasn't paused")
		}
	case handover.KindDrain:
		return w.Drain(m)
	case handover.KindMoveOut:
		return w.MoveOut(m.Bytes, m.Keep)
	case handover.KindMoveIn:
		return w.MoveIn()
	case handover.KindGoOn:
		return w.GoOn()
	}
	return nil
}

// say queues a message.
func (w *world) say(kind handover.Kind, bytes uint64) {
	w.messages <- inbox.Received{Message: &handover.Message{Kind: kind, Bytes: bytes,
		Grace: time.Minute, Turn: 3}}
}

// run obeys messages until there are none.
func (w *world) run() {
	w.t.Helper()
	for len(w.messages) > 0 {
		if err := w.obey(<-w.messages); err != nil {
			w.t.Fatal(err)
		}
	}
	if w.asleep {
		w.t.Error("the worker is asleep, and isn't held")
	}
}

// kinds are those of the messages that were sent, with a mark on refusals.
func (w *world) kinds() (list []string) {
	for _, m := range w.sent {
		s := string(m.Kind)
		if m.Error != "" {
			s += "!"
		}
		list = append(list, s)
	}
	return list
}
