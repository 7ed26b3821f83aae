// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/pace/pacetest"
)

func TestTurns(t *testing.T) {
	clock := pacetest.NewClock()
	p := pace.New(10, 3, clock)
	for i, want := range []time.Duration{0, 0, 0, 100, 200, 300} {
		if got := p.Take().Round(time.Millisecond); got != want*time.Millisecond {
			t.Errorf("turn %d comes in %v, want %v ms", i, got, want)
		}
	}
	clock.Advance(250 * time.Millisecond)
	if wait, ok := p.Try(); ok || wait.Round(time.Millisecond) != 150*time.Millisecond {
		t.Errorf("a turn that others wait for: %v, %v", wait, ok)
	}
	clock.Advance(150 * time.Millisecond)
	if wait, ok := p.Try(); !ok || wait != 0 {
		t.Errorf("a turn: %v, %v", wait, ok)
	}
	clock.Advance(time.Hour)
	for i := range 4 {
		if _, ok := p.Try(); ok != (i < 3) {
			t.Errorf("turn %d after a long time: %v", i, ok)
		}
	}
}

func TestRateChanges(t *testing.T) {
	clock := pacetest.NewClock()
	p := pace.New(1, 1, clock)
	p.Take()
	if got := p.Take(); got != time.Second {
		t.Errorf("%v", got)
	}
	p.SetRate(0)
	for range 1000 {
		if _, ok := p.Try(); !ok || p.Take() != 0 {
			t.Fatal("there is a bound still")
		}
	}
	p.SetRate(2)
	p.Take()
	if got := p.Take(); got != time.Second/2 {
		t.Errorf("%v", got)
	}
}

func TestWait(t *testing.T) {
	clock := pacetest.NewClock()
	p := pace.New(1, 1, clock)
	quit, done := make(chan struct{}), make(chan bool)
	if !p.Wait(quit) {
		t.Fatal("the first turn is refused")
	}
	go func() { done <- p.Wait(quit) }()
	clock.AwaitWaiters(1)
	select {
	case <-done:
		t.Fatal("it didn't wait")
	default:
	}
	clock.Advance(time.Second)
	if !<-done {
		t.Error("the turn didn't come")
	}
	go func() { done <- p.Wait(quit) }()
	clock.AwaitWaiters(1)
	close(quit)
	if <-done {
		t.Error("it went on after quit")
	}
}

func TestRealClock(t *testing.T) {
	<-pace.Real.After(time.Nanosecond)
	if pace.Real.Now().IsZero() {
		t.Error("no time")
	}
}
