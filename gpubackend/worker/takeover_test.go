// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
)

// takeOver is what another device process says first.
func takeOver(turn uint64) handover.Message {
	return handover.Message{Kind: handover.KindTakeOver, Turn: turn}
}

// stands wants a worker to say next where it stands, and nothing before.
func stands(t *testing.T, c *handover.Conn, turn uint64, want handover.Standing) {
	t.Helper()
	want.Protocol = handover.Protocol
	m := answerOf(t, c)
	if m.Kind != handover.KindStands || m.Turn != turn || m.Standing == nil || *m.Standing != want {
		t.Fatalf("%s, turn %d, %+v; want turn %d, %+v", m.Kind, m.Turn, m.Standing, turn, want)
	}
}

// handled obeys the messages that there are.
func (r *rig) handled(t *testing.T) {
	t.Helper()
	for len(r.messages) > 0 {
		if err := r.handle(<-r.messages); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTakeOverOfOneThatRuns changes nothing.
func TestTakeOverOfOneThatRuns(t *testing.T) {
	r := newRig(t)
	device := r.connect(t)
	r.shortage.Lacks = func() uint64 { return 1 }
	r.shortage.Ask = func(uint64) error { return nil }
	if !r.shortage.Stops(gpubackend.OpMemAlloc) {
		t.Fatal("a command that lacks room doesn't stop the ring")
	}
	r.say(takeOver(5))
	r.handled(t)
	stands(t, device, 5, handover.Standing{})
	if r.shortage.Waits() || !r.standstill.Free() {
		t.Errorf("lacks room %v, free %v", r.shortage.Waits(), r.standstill.Free())
	}
}

// TestTakeOverInAPause: a pause that the device process before asked for, and that waits for work
// to end, is given up without an answer. The next device process asks again.
func TestTakeOverInAPause(t *testing.T) {
	r := newRig(t)
	device := r.connect(t)
	r.objects.Add(object.Context, 7, 0)
	idle := r.driver
	r.use(busyContext{idle, 7})
	for turn := range uint64(3) {
		r.say(handover.Message{Kind: handover.KindPause})
		r.say(takeOver(turn))
	}
	r.handled(t)
	for turn := range uint64(3) {
		stands(t, device, turn, handover.Standing{})
	}
	if !r.standstill.Free() {
		t.Error("it is held still")
	}
	// One more is given up. Without work, the next pause is answered, and lasts when another device
	// process takes over.
	r.say(handover.Message{Kind: handover.KindPause})
	r.say(takeOver(9))
	r.handled(t)
	stands(t, device, 9, handover.Standing{})
	r.use(idle)
	r.say(handover.Message{Kind: handover.KindPause})
	r.say(takeOver(10))
	go func() { r.messages <- inbox.Received{Err: errStopped} }()
	if err := r.handle(<-r.messages); err == nil {
		t.Error("it doesn't end with the connection")
	}
	if m := answerOf(t, device); m.Kind != handover.KindPaused {
		t.Fatalf("%+v", m)
	}
	stands(t, device, 10, handover.Standing{Paused: true})
}

// TestTakeOverInADrain is the same with one that drains, and with one whose memory is out.
func TestTakeOverInADrain(t *testing.T) {
	r := newRig(t)
	r.driver.memory = []byte("content of some device memory")
	device := r.connect(t)
	r.objects.Add(object.Context, 7, 0)
	idle := r.driver
	r.use(busyContext{idle, 7})
	drain := handover.Message{Kind: handover.KindDrain, Grace: time.Hour, Turn: 1}
	r.say(drain)
	r.say(takeOver(4))
	r.handled(t)
	stands(t, device, 4, handover.Standing{})
	if !r.standstill.Free() {
		t.Fatal("it is held still")
	}
	r.use(idle)
	bytes := uint64(len(r.driver.memory))
	r.say(drain)
	r.say(takeOver(5))
	r.say(handover.Message{Kind: handover.KindMoveOut, Bytes: bytes})
	r.say(takeOver(6))
	r.say(handover.Message{Kind: handover.KindMoveIn})
	r.say(takeOver(7))
	r.say(handover.Message{Kind: handover.KindGoOn})
	r.say(takeOver(8))
	r.handled(t)
	if m := answerOf(t, device); m.Kind != handover.KindDrained || m.Error != "" {
		t.Fatalf("%+v", m)
	}
	stands(t, device, 5, handover.Standing{Still: true})
	answerOf(t, device)
	stands(t, device, 6, handover.Standing{Still: true, Out: true, Image: bytes})
	answerOf(t, device)
	stands(t, device, 7, handover.Standing{Still: true, Image: bytes})
	stands(t, device, 8, handover.Standing{})
}
