// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// fakeDevice makes events and says when they are passed. It is the contexts, too.
type fakeDevice struct {
	made    gpubackend.Event
	record  gpubackend.Result
	query   gpubackend.Result
	current uint64
	set     gpubackend.Result
}

func (d *fakeDevice) EventCreate(uint64) (gpubackend.Event, gpubackend.Result) {
	d.made++
	return d.made, gpubackend.Success
}
func (d *fakeDevice) EventRecordWithFlags(
	gpubackend.Event, gpubackend.Stream, uint64,
) gpubackend.Result {
	return d.record
}
func (d *fakeDevice) EventQuery(gpubackend.Event) gpubackend.Result { return d.query }
func (d *fakeDevice) HomeOfCurrent() uint64                         { return d.current }
func (d *fakeDevice) Set(handle uint64, _ bool) gpubackend.Result {
	if d.set == gpubackend.Success {
		d.current = handle
	}
	return d.set
}

func TestEventsAreUsedAgain(t *testing.T) {
	d := &fakeDevice{current: 5}
	s := New(d, d)
	a, _ := s.Mark(1)
	b, _ := s.Mark(1)
	if a == b || d.made != 2 {
		t.Fatalf("%v, %v, %d events", a, b, d.made)
	}
	d.query = gpubackend.NotReady
	if got := s.Passed(a); got != gpubackend.NotReady {
		t.Fatalf("%v", got)
	}
	if c, _ := s.Mark(1); d.made != 3 || c == a {
		t.Fatal("the event of a fence that isn't passed was used again")
	}
	d.query, d.current = gpubackend.IllegalAddress, 9
	if got := s.Passed(a); got != gpubackend.IllegalAddress || d.current != 5 {
		t.Fatalf("%v in context %d", got, d.current)
	}
	if c, _ := s.Mark(1); d.made != 3 || c != a {
		t.Fatal("the event of a fence that is over wasn't used again")
	}
	s.Drop(b)
	d.current = 6
	if s.Mark(1); d.made != 4 {
		t.Fatal("an event was used in another context")
	}
	s.Forget(5)
	d.current = 5
	if s.Mark(1); d.made != 5 {
		t.Fatal("an event was used that went with its context")
	}
}

func TestFencesThatFail(t *testing.T) {
	d := &fakeDevice{current: 5, record: gpubackend.InvalidHandle}
	s := New(d, d)
	if _, got := s.Mark(1); got != gpubackend.InvalidHandle {
		t.Fatalf("%v", got)
	}
	d.record = gpubackend.Success
	f, _ := s.Mark(1)
	if d.made != 1 {
		t.Fatal("the event of a fence that failed is lost")
	}
	d.set = gpubackend.InvalidContext
	if got := s.Passed(f); got != gpubackend.InvalidContext {
		t.Fatalf("in a context that is gone: %v", got)
	}
}
