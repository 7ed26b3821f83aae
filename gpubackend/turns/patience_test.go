// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"testing"
	"time"
)

// waitingFor is a tenant whose program waits for each kernel, and comes back after a while.
func waitingFor(name string, kernel, gap time.Duration, p Policy) *tenant {
	return &tenant{name: name, kernel: kernel, depth: 1, think: gap, policy: p}
}

// TestSharesOfThoseWhoWait: a program that waits for each kernel is away from the GPU for longer
// than an idle turn lasts. Its VM's share is the same as if it had queued them.
func TestSharesOfThoseWhoWait(t *testing.T) {
	triple := Policy{Weight: 300}
	for _, test := range []struct {
		name    string
		tenants []*tenant
	}{
		{"3:1", []*tenant{
			waitingFor("a", ms, 100*us, triple), waitingFor("b", ms, 100*us, Policy{}),
		}},
		{"kernels beyond a turn", []*tenant{
			waitingFor("a", 8*ms, 300*us, triple), waitingFor("b", 8*ms, 300*us, Policy{}),
		}},
		{"beside queued kernels", []*tenant{
			waitingFor("a", ms, 100*us, Policy{}), hog("b", 200*us, Policy{}),
		}},
		{"three", []*tenant{
			waitingFor("a", 2*ms, 150*us, Policy{Weight: 500}), hog("b", 200*us, triple),
			waitingFor("c", 2*ms, 150*us, Policy{Weight: 200}),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t, Config{}, test.tenants...)
			h.run(2 * time.Second)
			wantShares(t, 0.04, test.tenants...)
			if idle := h.idleFor.Seconds() / 2; idle > 0.1 {
				t.Errorf("the GPU was idle for %.3f of the time", idle)
			}
		})
	}
}

// TestEqualsAreNotWaitedFor: where passing the turn on costs nobody his share, it is passed on.
func TestEqualsAreNotWaitedFor(t *testing.T) {
	a := waitingFor("a", ms, 100*us, Policy{})
	b := waitingFor("b", ms, 100*us, Policy{})
	h := newHost(t, Config{}, a, b)
	h.run(2 * time.Second)
	wantShares(t, 0.01, a, b)
	if used := (a.used + b.used).Seconds() / 2; used < 0.93 {
		t.Errorf("used %.3f of the GPU", used)
	}
}

// TestLongGapsAreNotWaitedFor: the GPU isn't kept for those who take their time, whatever they are
// owed.
func TestLongGapsAreNotWaitedFor(t *testing.T) {
	a := waitingFor("a", ms, 400*us, Policy{Weight: MaxWeight})
	b := hog("b", ms, Policy{Weight: 1})
	h := newHost(t, Config{}, a, b)
	h.run(2 * time.Second)
	if idle := h.idleFor.Seconds() / 2; idle > 0.03 {
		t.Errorf("the GPU was idle for %.3f of the time", idle)
	}
}

// TestPatienceIsBounded: a VM that comes back at once for long, and then no more, keeps the GPU
// from the others once, for a part of a turn.
func TestPatienceIsBounded(t *testing.T) {
	a := waitingFor("a", ms, 100*us, Policy{Weight: MaxWeight})
	b := hog("b", ms, Policy{Weight: 1})
	h := newHost(t, Config{}, a, b)
	h.run(time.Second)
	a.think = time.Hour
	h.run(10 * ms)
	h.idleFor, b.used = 0, 0
	h.run(time.Second)
	if b.used < 990*ms {
		t.Errorf("the other had %v of a second in which nobody else came", b.used)
	}
}
