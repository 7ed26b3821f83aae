// SPDX-License-Identifier: Apache-2.0

package batches

import (
	"slices"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// rig is a Batches with a ring, a launcher and a gate that note what is done with them.
type rig struct {
	*Batches
	policy    handover.Policy
	did       []string
	pending   bool // there are more commands
	collected bool // there are launches
	ripe      bool
	counts    map[handover.Counter]uint64
}

func (r *rig) do(what string)                       { r.did = append(r.did, what) }
func (r *rig) Pending() bool                        { return r.pending }
func (r *rig) Release()                             { r.do("release") }
func (r *rig) Executed() uint32                     { return 77 }
func (r *rig) Copied() uint64                       { return 5 }
func (r *rig) Count(n handover.Counter, by uint64)  { r.counts[n] += by }
func (r *rig) Set(n handover.Counter, value uint64) { r.counts[n] = value }

// launcher and gate are the rig's.
type (
	launcher struct{ *rig }
	gate     struct{ *rig }
)

func (l launcher) Collected() bool { return l.collected }
func (l launcher) Flush()          { l.do("flush"); l.collected = false }
func (l launcher) Report()         { l.do("report") }
func (g gate) Ripe() bool          { return g.ripe }
func (g gate) Submitted()          { g.do("submitted") }
func (g gate) Executed()           { g.do("executed") }

func newRig(p handover.Policy) *rig {
	r := &rig{policy: p, counts: map[handover.Counter]uint64{}}
	r.Batches = New(Config{Ring: func() Ring { return r }, Launcher: launcher{r}, Gate: gate{r},
		Counters: r, Policy: &r.policy})
	return r
}

// run has a command executed, which is a launch or a call.
func (r *rig) run(bytes uint32, reply bool) {
	var command arena.Command
	if reply {
		command.Flags = wire.CommandFlagReply
	} else {
		r.collected = true
	}
	c := call.New(nil)
	c.Start(&command)
	r.Add(&c, bytes)
}

// ends are how many batches have ended, by why.
func (r *rig) ends() (list []handover.Counter) {
	for why := handover.BatchesDrained; why <= handover.BatchesStalled; why++ {
		for range r.counts[why] {
			list = append(list, why)
		}
	}
	return list
}

// end is what is done at the end of a batch, in this order: the ring's bytes go back when nothing
// uses them any more.
var end = []string{"flush", "executed", "release", "report"}

// TestBounds: a batch has as many commands and bytes as the policy says, and one command in any
// case.
func TestBounds(t *testing.T) {
	r := newRig(handover.Policy{BatchCommands: 3, BatchBytes: 100})
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
	r.End(handover.BatchesFull)
	if !slices.Equal(r.did, end) ||
		!slices.Equal(r.ends(), []handover.Counter{handover.BatchesFull}) {
		t.Errorf("did %v, ended %v", r.did, r.ends())
	}
	if r.counts[handover.Batches] != 1 || r.counts[handover.Commands] != 77 ||
		r.counts[handover.BytesCopied] != 5 {
		t.Errorf("counted %v", r.counts)
	}
	if r.Full() || !r.HasRoom(1<<31) || r.Held() || r.Drained() {
		t.Error("the next batch has something of it")
	}
}

// TestDrained: a ring without commands ends the batch, for the reason that its last command gives.
func TestDrained(t *testing.T) {
	r := newRig(handover.Policy{BatchCommands: 8, BatchBytes: 4096})
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
	if !r.Drained() || r.counts[handover.BatchesDrained] != 1 {
		t.Errorf("behind a launch: %v", r.ends())
	}
	r.run(8, false)
	if !r.Held() || r.counts[handover.BatchesHeld] != 1 || r.Held() {
		t.Errorf("before a command that stays: %v", r.ends())
	}
}

// TestEarly: what was collected gets to the driver before it is accounted for, unless more has
// come; and the ring's bytes back within a batch.
func TestEarly(t *testing.T) {
	r := newRig(handover.Policy{BatchCommands: 8, BatchBytes: 4096})
	if r.SubmitEarly() || len(r.did) > 0 {
		t.Error("nothing was submitted early")
	}
	r.run(8, false)
	r.pending = true
	if !r.SubmitEarly() || len(r.did) > 0 {
		t.Errorf("with more commands: %v", r.did)
	}
	r.pending = false
	if r.SubmitEarly() || !slices.Equal(r.did, []string{"flush"}) {
		t.Errorf("without more: %v", r.did)
	}
	r.did = nil
	r.ReleaseEarly()
	if !slices.Equal(r.did, []string{"flush", "release"}) || r.counts[handover.RingReleases] != 1 {
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
	r := newRig(handover.Policy{BatchCommands: 8, BatchBytes: 4096, BatchDelayUs: 3600e6})
	r.run(8, false)
	if !r.Drained() || !r.Until().IsZero() {
		t.Fatal("a launch after a pause was delayed")
	}
	r.run(8, false)
	if r.Drained() || r.SubmitEarly() || time.Until(r.Until()) < time.Minute {
		t.Fatalf("a launch behind another wasn't delayed: until %v", r.Until())
	}
	r.until = time.Now()
	if !r.Drained() || r.counts[handover.BatchesDelayed] != 1 || !r.Until().IsZero() {
		t.Errorf("after the delay: %v", r.ends())
	}
	r.run(8, false)
	r.Drained()
	r.run(8, true)
	if !r.Drained() || r.counts[handover.BatchesAnswered] != 1 {
		t.Errorf("behind a call: %v", r.ends())
	}
	r.run(8, false)
	r.Drained()
	r.collected = false // something else has flushed it
	if !r.Drained() || r.counts[handover.BatchesDrained] != 2 {
		t.Errorf("without launches: %v", r.ends())
	}
	r.run(8, false)
	if r.Drained() {
		t.Error("a launch behind another wasn't delayed")
	}
	r.policy.BatchDelayUs = 0
	if !r.Drained() || r.counts[handover.BatchesDelayed] != 2 {
		t.Errorf("when the policy changed: %v", r.ends())
	}
}
