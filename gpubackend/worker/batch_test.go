// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/batches"
	"github.com/paracuda/paracuda/gpubackend/worker/waiting"
)

// launchBytes is the size of a launch without parameters.
const launchBytes = wire.CommandSize + 8*command.LaunchKernelWords

// pass lets the worker look at its ring n times.
func (r *rig) pass(t testing.TB, n int) {
	t.Helper()
	for range n {
		if _, err := r.runCommands(); err != nil {
			t.Fatal(err)
		}
	}
}

// ends returns how many batches ended for each reason, and checks that each ended for one.
func (r *rig) ends(t testing.TB) map[handover.Counter]uint64 {
	t.Helper()
	all, sum := r.state.Counters(), uint64(0)
	ends := map[handover.Counter]uint64{}
	for why := handover.BatchesDrained; why <= handover.BatchesStalled; why++ {
		if all[why] > 0 {
			ends[why] = all[why]
			sum += all[why]
		}
	}
	if sum != all[handover.Batches] {
		t.Errorf("%d batches ended for %d reasons: %v", all[handover.Batches], sum, ends)
	}
	return ends
}

func TestBatchesEnd(t *testing.T) {
	call := func(r *rig) { r.send(gpubackend.OpCtxSynchronize, true, 1, nil) }
	launch := func(r *rig) { r.launch(nil) }
	large := func(r *rig) { r.launch(make([]byte, 4096)) }
	tests := []struct {
		name   string
		policy handover.Policy
		sent   []func(*rig)
		want   map[handover.Counter]uint64
	}{
		{"nothing", handover.Policy{BatchCommands: 8, BatchBytes: 4096}, nil, nil},
		{"a launch", handover.Policy{BatchCommands: 8, BatchBytes: 4096}, []func(*rig){launch},
			map[handover.Counter]uint64{handover.BatchesDrained: 1}},
		{"a call", handover.Policy{BatchCommands: 8, BatchBytes: 4096}, []func(*rig){launch, call},
			map[handover.Counter]uint64{handover.BatchesAnswered: 1}},
		{"too many commands", handover.Policy{BatchCommands: 2, BatchBytes: 4096},
			[]func(*rig){launch, launch, launch, launch, launch},
			map[handover.Counter]uint64{handover.BatchesFull: 2, handover.BatchesDrained: 1}},
		{"one at a time", handover.Policy{BatchCommands: 1, BatchBytes: 4096},
			[]func(*rig){launch, launch, call},
			map[handover.Counter]uint64{handover.BatchesFull: 3}},
		{"too many bytes", handover.Policy{BatchCommands: 8, BatchBytes: 2*launchBytes + 8},
			[]func(*rig){launch, launch, launch, launch, call},
			map[handover.Counter]uint64{handover.BatchesFullBytes: 2, handover.BatchesAnswered: 1}},
		{"just as many bytes", handover.Policy{BatchCommands: 8, BatchBytes: 2 * launchBytes},
			[]func(*rig){launch, launch},
			map[handover.Counter]uint64{handover.BatchesDrained: 1}},
		{"larger than a batch", handover.Policy{BatchCommands: 8, BatchBytes: 64},
			[]func(*rig){launch, large, launch},
			map[handover.Counter]uint64{handover.BatchesFullBytes: 2, handover.BatchesDrained: 1}},
		{"nothing grows behind a call",
			handover.Policy{BatchCommands: 8, BatchBytes: 4096, BatchDelayUs: 1e6},
			[]func(*rig){launch, call},
			map[handover.Counter]uint64{handover.BatchesAnswered: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.policy = tt.policy
			for _, send := range tt.sent {
				send(r)
			}
			r.pass(t, len(tt.sent)+1)
			got := r.ends(t)
			for why, n := range tt.want {
				if got[why] != n {
					t.Errorf("%s: %d, want %d", handover.Described[why].Name, got[why], n)
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("batches ended for %d reasons, want %d", len(got), len(tt.want))
			}
			if r.arena.Pending() {
				t.Error("commands are left")
			}
		})
	}
}

// TestFullOfWaitersEndsBatch: calls that wait are bounded, and what is behind them waits in the
// ring.
func TestFullOfWaitersEndsBatch(t *testing.T) {
	r := newRig(t)
	r.policy = handover.Policy{BatchCommands: 65536, BatchBytes: 1 << 20}
	r.driver.ready = gpubackend.NotReady
	for range waiting.Most + 10 {
		r.send(gpubackend.OpStreamSynchronize, true, 1, nil, 0)
	}
	r.pass(t, 10)
	if got := r.ends(t); got[handover.BatchesStalled] != 1 || r.waiting.Len() != waiting.Most ||
		!r.arena.Pending() {
		t.Fatalf("%d calls wait, batches %v", r.waiting.Len(), got)
	}
	r.driver.ready = gpubackend.Success
	r.pollWaiters()
	r.pass(t, 1)
	if r.arena.Pending() {
		t.Fatal("commands are left though no call waits")
	}
}

// growing returns a rig in which launches wait for more of them: one was launched a moment ago.
func growing(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.driver.keep = true
	r.policy.BatchDelayUs = uint32(time.Hour / time.Microsecond) // no test waits for it
	r.launch(nil)
	r.pass(t, 1)
	if len(r.driver.launches) != 1 {
		t.Fatal("a launch after a pause was delayed")
	}
	r.launch(nil)
	r.pass(t, 3)
	if len(r.driver.launches) != 1 {
		t.Fatal("a launch that follows another wasn't delayed")
	}
	if r.batches.Until().IsZero() {
		t.Fatal("the worker would sleep for ever while a batch grows")
	}
	return r
}

func TestBatchGrows(t *testing.T) {
	tests := []struct {
		name     string
		then     func(*rig)
		launches int
		want     handover.Counter
	}{
		{"until an answer is needed", func(r *rig) {
			r.launch(nil)
			r.send(gpubackend.OpCtxSynchronize, true, 1, nil)
		}, 3,
			handover.BatchesAnswered},
		{"until something else comes", func(r *rig) {
			r.send(gpubackend.OpEventRecordWithFlags, false, 0, nil, 1, 0, 0)
		}, 2,
			handover.BatchesDrained},
		{"until it is full",
			func(r *rig) { r.policy.BatchCommands = 3; r.launch(nil); r.launch(nil) }, 4,
			handover.BatchesFull},
		{"until the policy changes", func(r *rig) { r.policy.BatchDelayUs = 0 }, 2,
			handover.BatchesDelayed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := growing(t)
			before := r.ends(t)[tt.want]
			tt.then(r)
			r.pass(t, 1)
			if got := r.ends(t); len(r.driver.launches) != tt.launches || got[tt.want] != before+1 {
				t.Fatalf("%d launches, want %d; batches ended: %v", len(r.driver.launches),
					tt.launches, got)
			}
		})
	}
}

// TestGrowingBatchKeepsContext: a waiting call of another context mustn't take the collected
// launches into its own.
func TestGrowingBatchKeepsContext(t *testing.T) {
	r := growing(t)
	other := r.objects.Add(object.Context, 77, 0)
	r.driver.ready = gpubackend.NotReady
	r.awaitContext(t, other)
	r.pollWaiters()
	if len(r.driver.launches) != 2 || r.driver.context != 77 {
		t.Fatalf("%d launches before context %d became current", len(r.driver.launches),
			r.driver.context)
	}
}

func TestRingIsReleasedEarly(t *testing.T) {
	r := newRig(t)
	r.policy = handover.Policy{BatchCommands: 65536, BatchBytes: 1 << 20}
	for range batches.ReleaseBytes/4096 + 1 {
		r.launch(make([]byte, 4096))
	}
	r.pass(t, 1)
	all := r.state.Counters()
	if all[handover.RingReleases] != 1 || all[handover.Batches] != 1 ||
		all[handover.LaunchFlushes] < 2 {
		t.Fatalf("counters %v", all.Map())
	}
	if got := all.CommandsPerBatch(); got != batches.ReleaseBytes/4096+1 {
		t.Fatalf("%v commands a batch", got)
	}
}
