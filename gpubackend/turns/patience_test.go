// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"fmt"
	"math"
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

// answers is a tenant of the latency class. Each of its answers is so many kernels of 60 us, with
// rests of 100 us between them. After the pause it begins the next.
func answers(kernels int, pause time.Duration) *tenant {
	n := 0
	return &tenant{
		name: "answers", kernel: 60 * us, depth: 1, think: 100 * us,
		policy: Policy{Class: Latency},
		late: func() time.Duration {
			if n++; n%kernels == 0 {
				return pause
			}
			return 0
		},
	}
}

// took is the longest time that an answer of so many kernels took, with its rests. The first answer
// is left out.
func took(x *tenant, kernels int) (longest time.Duration) {
	for w := x.waits[kernels:]; len(w) >= kernels; w = w[kernels:] {
		sum := time.Duration(kernels-1) * x.think
		for _, wait := range w[:kernels] {
			sum += wait
		}
		longest = max(longest, sum)
	}
	return longest
}

// TestAnAnswerKeepsItsTurn: what answers somebody with many kernels, and rests between them, waits
// once for what others have begun, not at each rest. What it doesn't take the others have.
func TestAnAnswerKeepsItsTurn(t *testing.T) {
	for _, kernels := range []int{30, 80} { // within a turn, and longer than one
		t.Run(fmt.Sprint(kernels), func(t *testing.T) {
			pause := 2 * time.Duration(kernels) * 160 * us
			a, b := answers(kernels, pause), hog("training", 80*us, Policy{})
			h := newHost(t, Config{}, a, b)
			h.run(2 * time.Second)
			alone := time.Duration(kernels)*(a.kernel+a.think) - a.think
			if longest := took(a, kernels); longest > alone+600*us {
				t.Errorf("an answer took %v, alone it takes %v", longest, alone)
			}
			left := 2 * time.Second * (pause + a.think) / (pause + a.think + alone)
			if b.used < left*9/10 {
				t.Errorf("the other had %v, of %v that were left", b.used, left)
			}
		})
	}
}

// TestLatencyKeepsNothingAheadOfItsShare: a VM of the latency class keeps its turn at rests for as
// long as it isn't ahead of its share, and has no more than that.
func TestLatencyKeepsNothingAheadOfItsShare(t *testing.T) {
	a, b := answers(math.MaxInt, 0), hog("training", 80*us, Policy{})
	h := newHost(t, Config{}, a, b)
	h.run(2 * time.Second)
	if b.used < 950*ms {
		t.Errorf("the other had %v of 2 s, though both have the same weight", b.used)
	}
}

// TestLatencyThatComesOnce: a VM of the latency class whose rests are long keeps nothing.
func TestLatencyThatComesOnce(t *testing.T) {
	a, b := waitingFor("light", 50*us, 2*ms, Policy{Class: Latency}), hog("b", 80*us, Policy{})
	h := newHost(t, Config{}, a, b)
	h.run(2 * time.Second)
	if idle := h.idleFor.Seconds() / 2; idle > 0.03 {
		t.Errorf("the GPU was idle for %.3f of the time", idle)
	}
}
