// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

func TestLaunchCarriesEverything(t *testing.T) {
	r := newRig(t)
	r.driver.keep = true
	r.launch([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	if _, err := r.runCommands(); err != nil {
		t.Fatal(err)
	}
	if len(r.driver.launches) != 1 {
		t.Fatalf("%d launches, want 1", len(r.driver.launches))
	}
	l := r.driver.launches[0]
	if l.Function != 2 || l.Grid != [3]uint32{1, 1, 1} || l.Block != [3]uint32{32, 1, 1} ||
		len(l.Parameters) != 9 || l.Parameters[8] != 9 {
		t.Fatalf("launched %+v", l)
	}
}

func TestHostileCommands(t *testing.T) {
	r := newRig(t)
	f := r.function
	tests := []struct {
		name  string
		op    gpubackend.Op
		words []uint64
		want  gpubackend.Result
	}{
		{"unknown op", 999, nil, gpubackend.NotSupported},
		{"op beyond the table", 65535, nil, gpubackend.NotSupported},
		{"too few words", gpubackend.OpLaunchKernel, []uint64{f}, gpubackend.InvalidValue},
		{"forged function", gpubackend.OpLaunchKernel, []uint64{12345, 0, 0, 0, 0, 0, 0},
			gpubackend.InvalidHandle},
		{"context for a function", gpubackend.OpLaunchKernel, []uint64{r.context, 0, 0, 0, 0, 0, 0},
			gpubackend.InvalidHandle},
		{"forged stream", gpubackend.OpLaunchKernel, []uint64{f, 77, 0, 0, 0, 0, 0},
			gpubackend.InvalidHandle},
		{"parameters beyond the command", gpubackend.OpLaunchKernel, []uint64{f, 0, 0, 0, 0, 0, 64},
			gpubackend.InvalidValue},
		{"parameters wrap", gpubackend.OpLaunchKernel, []uint64{f, 0, 0, 0, 0, 0, ^uint64(0)},
			gpubackend.InvalidValue},
		{"attributes beyond the command", gpubackend.OpLaunchKernel,
			[]uint64{f, 0, 0, 0, 0, 31 << 32, 0}, gpubackend.InvalidValue},
		{"too many attributes", gpubackend.OpLaunchKernel,
			[]uint64{f, 0, 0, 0, 0, 0xffffffff << 32, 0}, gpubackend.InvalidValue},
		{"bulk before the bulk area", gpubackend.OpCopyHtoD,
			[]uint64{0, wire.BufferBulk<<56 | 64, 8, 8, 0, 0}, gpubackend.InvalidValue},
		{"bulk past the arena", gpubackend.OpCopyHtoD,
			[]uint64{0, wire.BufferBulk<<56 | (arena.MinBytes - 4), 8, 8, 0, 0},
			gpubackend.InvalidValue},
		{"inline before the words", gpubackend.OpCopyHtoD,
			[]uint64{0, wire.BufferInline << 56, 8, 8, 0, 0}, gpubackend.InvalidValue},
		{"inline past the command", gpubackend.OpCopyHtoD,
			[]uint64{0, wire.BufferInline<<56 | 72, 8, 8, 0, 0}, gpubackend.InvalidValue},
		{"more bytes than the buffer", gpubackend.OpCopyHtoD,
			[]uint64{0, wire.BufferInline<<56 | 24, 8, 9, 0, 0}, gpubackend.InvalidValue},
		{"box overflows", gpubackend.OpCopyBox,
			[]uint64{0, 1 << 39, 1 << 39, wire.BufferBulk << 56, 8, 1, 1, 1 << 39, 1 << 23, 1 << 23,
				0, 0, 0}, gpubackend.InvalidValue},
		{"register without a map", gpubackend.OpHostRegister, []uint64{1, 2, 3, 4},
			gpubackend.InvalidValue},
		{"keep without a map", gpubackend.OpHostKeep, []uint64{1, 4096, 4096, 0, 0},
			gpubackend.HostMemoryNotRegistered},
		{"unregister without a map", gpubackend.OpHostUnregister, []uint64{1},
			gpubackend.HostMemoryNotRegistered},
	}
	r.withQueue(t) // where maps that are named are looked up
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.call(t, tt.op, tt.words...); got != tt.want {
				t.Fatalf("result %d, want %d", got, tt.want)
			}
		})
	}
	// The worker is still good.
	if got := r.call(t, gpubackend.OpCtxSynchronize); got != gpubackend.Success {
		t.Fatalf("afterwards: %d", got)
	}
}

func TestWaitingCallDelaysNoOther(t *testing.T) {
	r := newRig(t)
	r.driver.ready = gpubackend.NotReady
	if got := r.call(t, gpubackend.OpStreamSynchronize, 0); got != call.Pending {
		t.Fatalf("synchronize answered %d while the stream is busy", got)
	}
	r.driver.keep = true
	r.launch(nil)
	if _, err := r.runCommands(); err != nil || len(r.driver.launches) != 1 {
		t.Fatalf("a launch behind a waiting call: %d, %v", len(r.driver.launches), err)
	}
	r.driver.ready = gpubackend.Success
	if !r.pollWaiters() || r.slot().Done != 1 {
		t.Fatal("the waiting call was not answered")
	}
}

func TestLaunchesAreCollectedByStream(t *testing.T) {
	r := newRig(t)
	r.driver.keep = true
	a, b := r.objects.Add(object.Stream, 10, r.context), r.objects.Add(object.Stream, 11, r.context)
	launch := func(stream uint64, x uint64) {
		r.send(gpubackend.OpLaunchKernel, false, 0, nil, r.function, stream, x|1<<32, 1|1<<32,
			1|1<<32, 0, 0)
	}
	for i := range uint64(300) {
		launch([]uint64{a, b}[i%2], i+1)
	}
	launch(0, 1000) // the legacy stream comes after all before it, and before all after it
	launch(a, 1001)
	launch(b, 0) // fails by itself
	launch(b, 1002)
	r.send(gpubackend.OpCtxSynchronize, true, 1, nil)
	for r.arena.Pending() {
		if _, err := r.runCommands(); err != nil {
			t.Fatal(err)
		}
	}
	last := map[gpubackend.Stream]uint32{}
	for i, l := range r.driver.launches {
		x := l.Grid[0]
		if x <= last[l.Stream] {
			t.Fatalf("launch %d of stream %d came after %d", x, l.Stream, last[l.Stream])
		}
		last[l.Stream] = x
		if (x == 1000 && i != 300) || (x > 1000 && i <= 300) {
			t.Fatalf("launch %d came as number %d", x, i)
		}
	}
	if len(r.driver.launches) != 303 || r.slot().Done != 1 {
		t.Fatalf("%d launches, answered %d", len(r.driver.launches), r.slot().Done)
	}
	if got := r.asyncError(); got != gpubackend.InvalidValue {
		t.Fatalf("async error %d", got)
	}
}

// TestBulkIsReadInTheDevicesTime: the bulk area is registered, so that a copy from it isn't over
// when it is queued.
func TestBulkIsReadInTheDevicesTime(t *testing.T) {
	r := newRig(t)
	r.driver.ready = gpubackend.NotReady
	if got := r.call(t, gpubackend.OpCopyHtoD, 0, wire.BufferBulk<<56|wire.Bulk, 64, 64, 0,
		0); got != call.Pending {
		t.Fatalf("a copy from the bulk area answered %d before the device had read it", got)
	}
	r.driver.ready = gpubackend.Success
	if !r.pollWaiters() || r.slot().Done != 1 || r.slot().Result != 0 {
		t.Fatalf("then: %+v", r.slot())
	}
}

func TestAnnouncedAnswers(t *testing.T) {
	r := newRig(t)
	r.driver.ready, r.driver.announces = gpubackend.NotReady, true
	if got := r.call(t, gpubackend.OpStreamSynchronize, 0); got != call.Pending ||
		len(r.driver.announced) != 1 {
		t.Fatalf("synchronize: %d, announced %v", got, r.driver.announced)
	}
	for range 3 * turns {
		if r.pollWaiters() {
			t.Fatal("answered before the device wrote")
		}
	}
	binary.LittleEndian.PutUint32(r.mem[wire.Slots:], r.driver.announced[0]) // the device writes
	if !r.pollWaiters() || r.waiting.Len() != 0 || r.slot().Result != 0 || r.driver.arrived != 1 {
		t.Fatalf("the answer was not seen: %+v", r.slot())
	}
	if got := r.call(t, gpubackend.OpEventQuery, 1); got == call.Pending {
		t.Fatal("the next call was not answered")
	}
	if got := r.call(t, gpubackend.OpStreamSynchronize, 0); got != call.Pending {
		t.Fatalf("synchronize again: %d", got)
	}
	r.driver.ready = gpubackend.IllegalAddress // work that fails announces nothing
	for range turns {
		r.pollWaiters()
	}
	if s := r.slot(); s.Done != 3 || gpubackend.Result(s.Result) != gpubackend.IllegalAddress {
		t.Fatalf("failure: %+v", s)
	}
}

func TestAsyncErrorIsKept(t *testing.T) {
	r := newRig(t)
	r.send(gpubackend.OpLaunchKernel, false, 0, nil, 99, 0, 0, 0, 0, 0, 0)
	r.send(gpubackend.OpLaunchKernel, false, 0, nil, r.function, 0, 0, 0, 0, 0, 64)
	if _, err := r.runCommands(); err != nil {
		t.Fatal(err)
	}
	if got := r.asyncError(); got != gpubackend.InvalidHandle {
		t.Fatalf("async error %d, want that of the first command", got)
	}
}

func TestLaunchAllocatesNothing(t *testing.T) {
	r := newRig(t)
	tail := make([]byte, 64)
	n := testing.AllocsPerRun(100, func() {
		r.launch(tail)
		if _, err := r.runCommands(); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Fatalf("%v allocations a launch", n)
	}
}

func BenchmarkLaunch(b *testing.B) { benchmarkLaunches(b, newRig(b)) }

func benchmarkLaunches(b *testing.B, r *rig) {
	b.Helper()
	tail := make([]byte, 8)
	const batch = 256
	b.ReportAllocs()
	for i := 0; i < b.N; i += batch {
		b.StopTimer()
		for range batch {
			r.launch(tail)
		}
		b.StartTimer()
		for r.arena.Pending() {
			if _, err := r.runCommands(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
