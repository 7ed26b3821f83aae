// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// fakeDevice counts streams. It is the contexts, too.
type fakeDevice struct {
	made      gpubackend.Stream
	destroyed []gpubackend.Stream
	refuse    gpubackend.Result
	gone      uint64 // context that can't be made current
}

func (d *fakeDevice) StreamCreateWithPriority(
	uint64, uint64,
) (gpubackend.Stream, gpubackend.Result) {
	if d.refuse != gpubackend.Success {
		return 0, d.refuse
	}
	d.made++
	return 100 + d.made, gpubackend.Success
}
func (d *fakeDevice) StreamDestroy(s gpubackend.Stream) gpubackend.Result {
	d.destroyed = append(d.destroyed, s)
	return gpubackend.Success
}
func (d *fakeDevice) Set(context uint64, _ bool) gpubackend.Result {
	if context == d.gone {
		return gpubackend.InvalidContext
	}
	return gpubackend.Success
}

func TestFind(t *testing.T) {
	var objects object.Table
	d := &fakeDevice{}
	s := New(d, d, &objects)
	own, event := objects.Add(object.Stream, 9, 0), objects.Add(object.Event, 10, 0)
	for _, tt := range []struct {
		handle uint64
		want   gpubackend.Stream
		result gpubackend.Result
	}{
		{Default, gpubackend.LegacyStream, 0}, {Legacy, gpubackend.LegacyStream, 0},
		{PerThread, 101, 0}, {PerThread, 101, 0},
		{own, 9, 0}, {event, 0, gpubackend.InvalidHandle}, {77, 0, gpubackend.InvalidHandle},
	} {
		got, result := s.Find(&call.Call{Context: 5, Slot: 1}, tt.handle)
		if got != tt.want || result != tt.result {
			t.Errorf("%#x: %d, %v", tt.handle, got, result)
		}
	}
	d.refuse = gpubackend.OutOfMemory
	if _, result := s.Find(&call.Call{Context: 5, Slot: 2},
		PerThread); result != gpubackend.OutOfMemory || s.Threads() != 1 {
		t.Errorf("without memory: %v, %d streams", result, s.Threads())
	}
}

func TestThreadsAndContextsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		end       func(*Streams)
		gone      uint64
		left      int
		destroyed []gpubackend.Stream
	}{
		"a thread": {func(s *Streams) { s.EndThread(1) }, 0, 2,
			[]gpubackend.Stream{101, 103}},
		"a context": {func(s *Streams) { s.EndContext(5) }, 0, 2,
			[]gpubackend.Stream{101, 102}},
		"a context that is gone":  {func(s *Streams) { s.EndContext(5) }, 5, 2, nil},
		"a context is forgotten":  {func(s *Streams) { s.Forget(6) }, 0, 2, nil},
		"a thread without stream": {func(s *Streams) { s.EndThread(7) }, 0, 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := &fakeDevice{gone: tt.gone}
			s := New(d, d, &object.Table{})
			for _, c := range []call.Call{{Context: 5, Slot: 1}, {Context: 5, Slot: 2},
				{Context: 6, Slot: 1}, {Context: 6, Slot: 2}} {
				s.Find(&c, PerThread)
			}
			tt.end(s)
			slices.Sort(d.destroyed)
			if s.Threads() != tt.left || !slices.Equal(d.destroyed, tt.destroyed) {
				t.Errorf("%d are left, %v destroyed", s.Threads(), d.destroyed)
			}
		})
	}
}
