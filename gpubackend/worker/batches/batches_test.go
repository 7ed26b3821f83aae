// SPDX-License-Identifier: Apache-2.0

package batches

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// rig is a Batches with a launcher and a gate that note what is done with them.
type rig struct {
	*Batches
	policy    handover.Policy
	arena     *arena.Arena
	mem       []byte
	did       []string
	collected bool // there are launches
	ripe      bool
}

func (r *rig) do(what string) { r.did = append(r.did, what) }

// counts are the counters.
func (r *rig) counts() *handover.Counters { c := r.State.Counters(); return &c }

// launcher and gate are the rig's.
type (
	launcher struct{ *rig }
	gate     struct{ *rig }
)

func (l launcher) Collected() bool { return l.collected }
func (l launcher) Flush() {
	if l.released() == l.arena.Executed()*8 && l.collected {
		l.do("too late")
	}
	l.do("flush")
	l.collected = false
}
func (l launcher) Report() { l.do("report") }
func (g gate) Ripe() bool  { return g.ripe }
func (g gate) Submitted()  { g.do("submitted") }
func (g gate) Executed()   { g.do("executed") }

func newRig(t *testing.T, p handover.Policy) *rig {
	t.Helper()
	r := &rig{policy: p, mem: make([]byte, arena.MinBytes)}
	var err error
	if r.arena, err = arena.New(r.mem); err != nil {
		t.Fatal(err)
	}
	state, err := handover.NewState()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(state.Close)
	r.Batches = New(Config{Arena: func() *arena.Arena { return r.arena }, Launcher: launcher{r},
		Gate: gate{r}, State: state, Policy: &r.policy})
	return r
}

// word is one of the arena's.
func (r *rig) word(at int) []byte { return r.mem[at : at+4] }

// append says that the guest has appended commands up to there.
func (r *rig) append(position uint32) {
	binary.LittleEndian.PutUint32(r.word(wire.ArenaHeaderAppendedOffset), position)
}

// released is up to where the guest has its bytes back.
func (r *rig) released() uint32 {
	return binary.LittleEndian.Uint32(r.word(wire.ArenaHeaderConsumedOffset))
}

// run has a command executed, which is a launch or a call.
func (r *rig) run(bytes uint32, reply bool) {
	var command arena.Command
	command.Size = 8
	if reply {
		command.Flags = wire.CommandFlagReply
	} else {
		r.collected = true
	}
	c := call.New(nil)
	c.Start(&command)
	r.arena.Consume(&command)
	r.append(r.arena.Executed() * 8)
	r.Add(&c, bytes)
}

// ends are how many batches have ended, by the reason.
func (r *rig) ends() (list []handover.Counter) {
	for why := handover.BatchesDrained; why <= handover.BatchesStalled; why++ {
		for range r.counts()[why] {
			list = append(list, why)
		}
	}
	return list
}

// end is what is done at the end of a batch, in this order. The ring's bytes go back in between,
// when nothing uses them any more.
var end = []string{"flush", "executed", "report"}

// TestBounds: a batch has as many commands and bytes as the policy says, and one command in any
// case.
func TestBounds(t *testing.T) {
	r := newRig(t, handover.Policy{BatchCommands: 3, BatchBytes: 100})
	if !r.HasRoom(1 << 31) {
		t.Error("no room for the first command")
	}
	r.run(60, false)
	if r.Full() || !r.HasRoom(40) || r.HasRoom(41) || r.HasRoom(1<<32-1) {
		t.Errorf("60 of 100 bytes: full %v, room for 40 %v, for 41 %v", r.Full(), r.HasRoom(40),
			r.HasRoom(41))
	}
	r.run(0, false)
	r.run(0, false)
	if !r.Full() {
		t.Error("three commands aren't full")
	}
	r.policy.BatchCommands = 4
	if r.Full() {
		t.Error("the policy changed, and the batch is full still")
	}
	binary.LittleEndian.PutUint32(r.word(wire.ArenaHeaderCopiedOffset), 5)
	r.End(handover.BatchesFull)
	if !slices.Equal(r.did, end) ||
		!slices.Equal(r.ends(), []handover.Counter{handover.BatchesFull}) {
		t.Errorf("did %v, ended %v", r.did, r.ends())
	}
	if r.counts()[handover.Batches] != 1 || r.counts()[handover.Commands] != 3 ||
		r.counts()[handover.BytesCopied] != 5 || r.released() != 24 {
		t.Errorf("counted %v, released %d bytes", r.counts().Map(), r.released())
	}
	if r.Full() || !r.HasRoom(1<<31) || r.Held() || r.Drained() {
		t.Error("the next batch has something of it")
	}
}

// TestDrained: a ring without commands ends the batch, for the reason that its last command gives.
func TestDrained(t *testing.T) {
	r := newRig(t, handover.Policy{BatchCommands: 8, BatchBytes: 4096})
	if r.Drained() || len(r.did) > 0 {
		t.Error("a batch of nothing ended")
	}
	r.run(8, false)
	r.run(8, true)
	if !r.Drained() || !slices.Equal(r.ends(), []handover.Counter{handover.BatchesAnswered}) {
		t.Errorf("behind a call: %v", r.ends())
	}
	r.run(8, true)
	r.run(8, false)
	if !r.Drained() || r.counts()[handover.BatchesDrained] != 1 {
		t.Errorf("behind a launch: %v", r.ends())
	}
	r.run(8, false)
	if !r.Held() || r.counts()[handover.BatchesHeld] != 1 || r.Held() {
		t.Errorf("before a command that stays: %v", r.ends())
	}
}

// TestEarly: what was collected gets to the driver before it is accounted for, unless more has
// come; and the ring's bytes back within a batch.
func TestEarly(t *testing.T) {
	r := newRig(t, handover.Policy{BatchCommands: 8, BatchBytes: 4096})
	if r.SubmitEarly() || len(r.did) > 0 {
		t.Error("nothing was submitted early")
	}
	r.run(8, false)
	r.append(16)
	if !r.SubmitEarly() || len(r.did) > 0 {
		t.Errorf("with more commands: %v", r.did)
	}
	r.append(8)
	if r.SubmitEarly() || !slices.Equal(r.did, []string{"flush"}) {
		t.Errorf("without more: %v", r.did)
	}
	r.did = nil
	r.ReleaseEarly()
	if !slices.Equal(r.did, []string{"flush"}) || r.counts()[handover.RingReleases] != 1 ||
		r.released() != 8 {
		t.Errorf("released early: %v", r.did)
	}
	r.did = nil
	r.SubmitRipe()
	r.ripe = true
	r.SubmitRipe()
	if !slices.Equal(r.did, []string{"flush", "submitted"}) {
		t.Errorf("ripe: %v", r.did)
	}
}

// TestGrows: where the policy delays batches, launches wait for more of them, but the first after a
// pause doesn't, and none does for longer than the delay.
func TestGrows(t *testing.T) {
	r := newRig(t, handover.Policy{BatchCommands: 8, BatchBytes: 4096, BatchDelayUs: 3600e6})
	r.run(8, false)
	if !r.Drained() || !r.Until().IsZero() {
		t.Fatal("a launch after a pause was delayed")
	}
	r.run(8, false)
	if r.Drained() || r.SubmitEarly() || time.Until(r.Until()) < time.Minute {
		t.Fatalf("a launch behind another wasn't delayed: until %v", r.Until())
	}
	r.until = time.Now()
	if !r.Drained() || r.counts()[handover.BatchesDelayed] != 1 || !r.Until().IsZero() {
		t.Errorf("after the delay: %v", r.ends())
	}
	r.run(8, false)
	r.Drained()
	r.run(8, true)
	if !r.Drained() || r.counts()[handover.BatchesAnswered] != 1 {
		t.Errorf("behind a call: %v", r.ends())
	}
	r.run(8, false)
	r.Drained()
	r.collected = false // something else has flushed it
	if !r.Drained() || r.counts()[handover.BatchesDrained] != 2 {
		t.Errorf("without launches: %v", r.ends())
	}
	r.run(8, false)
	if r.Drained() {
		t.Error("a launch behind another wasn't delayed")
	}
	r.policy.BatchDelayUs = 0
	if !r.Drained() || r.counts()[handover.BatchesDelayed] != 2 {
		t.Errorf("when the policy changed: %v", r.ends())
	}
}
