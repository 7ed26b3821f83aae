// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
)

// TestTimesOfEvents: in a process that recorded neither, the time between two events is what it
// was, and later events count from there. An event that is recorded again, or is gone, loses its
// old time.
func TestTimesOfEvents(t *testing.T) {
	before := newRoom()
	var events []gpubackend.Event
	for range 4 {
		e, _ := before.calls.EventCreate(0)
		events = append(events, e)
	}
	for _, e := range events[:3] {
		before.calls.EventRecordWithFlags(e, 0, 0)
		before.fake.clock += int64(e) * 5000
	}
	elapsed := func(r *room, i, j int) int64 {
		t.Helper()
		ns, result := r.EventElapsed(events[i], events[j])
		if result != gpubackend.Success {
			t.Fatalf("from %d to %d: result %d", i, j, result)
		}
		return int64(ns)
	}
	want := elapsed(before, 0, 2)
	times := before.EventTimes(events)
	if len(times) != 3 || len(before.fake.at) != 3 {
		t.Fatalf("%v, %d events are left", times, len(before.fake.at))
	}

	r := newRoom()
	for range events {
		r.calls.EventCreate(0) // the same handles
	}
	if _, result := r.EventElapsed(events[0], events[1]); result != gpubackend.InvalidHandle {
		t.Fatalf("never recorded: %d", result)
	}
	if result := r.SetEventTimes(times); result != gpubackend.Success {
		t.Fatal(result)
	}
	if got := elapsed(r, 0, 2); got != want {
		t.Errorf("%d ns, want %d", got, want)
	}
	if got := elapsed(r, 2, 0); got != -want {
		t.Errorf("backwards %d ns, want %d", got, -want)
	}
	if _, result := r.EventElapsed(events[0], events[3]); result != gpubackend.InvalidHandle {
		t.Errorf("to one that isn't recorded: %d", result)
	}
	r.calls.EventRecordWithFlags(events[3], 0, 0)
	if got := elapsed(r, 0, 3); got <= want {
		t.Errorf("to one that is recorded now: %d ns, more than %d have passed", got, want)
	}
	r.calls.EventRecordWithFlags(events[0], 0, 0)
	if got := elapsed(r, 3, 0); got != 1000 {
		t.Errorf("to one that was recorded again: %d ns", got)
	}
	if r.EventDestroy(events[2]); len(r.past[r.x.Current()].ago) != 2 {
		t.Error("one that is gone has a time")
	}
	bad := []gpubackend.EventTime{{Event: 1, Context: contextstest.Primary + 1}}
	if result := r.SetEventTimes(bad); result != gpubackend.InvalidContext {
		t.Errorf("in no context: %d", result)
	}
}
