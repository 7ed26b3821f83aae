// SPDX-License-Identifier: Apache-2.0

package launches

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// fakeDriver remembers what was launched. A launch without blocks fails.
type fakeDriver struct {
	launched []gpubackend.Launch
	batches  []int
	forget   bool
	together []gpubackend.Launch // on several devices
	flags    uint32
}

func (d *fakeDriver) Launch(l *gpubackend.Launch) gpubackend.Result {
	if l.Grid[0] == 0 {
		return gpubackend.InvalidValue
	}
	if !d.forget {
		x := *l
		x.Attributes = append([]byte(nil), l.Attributes...)
		d.launched = append(d.launched, x)
	}
	return gpubackend.Success
}

func (d *fakeDriver) LaunchAll(ls []gpubackend.Launch) (int, gpubackend.Result) {
	if !d.forget {
		d.batches = append(d.batches, len(ls))
	}
	for i := range ls {
		if result := d.Launch(&ls[i]); result != gpubackend.Success {
			return i, result
		}
	}
	return len(ls), gpubackend.Success
}

func (d *fakeDriver) LaunchDevices(ls []gpubackend.Launch, flags uint32) gpubackend.Result {
	d.together, d.flags = ls, flags
	return gpubackend.Success
}

// fakeHandles takes numbers from 100 on for handles of functions and streams.
type fakeHandles[Native ~uint64] struct{}

func (fakeHandles[Native]) Find(_ *call.Call, handle uint64) (Native, gpubackend.Result) {
	if handle < 100 {
		return 0, gpubackend.InvalidHandle
	}
	return Native(handle - 100), gpubackend.Success
}

// rig is a Launcher with a fake around it.
type rig struct {
	*Launcher
	driver  fakeDriver
	objects object.Table
	failed  []gpubackend.Result
	counts  map[handover.Counter]uint64
	command arena.Command
	call    call.Call
}

func newRig() *rig {
	r := &rig{counts: map[handover.Counter]uint64{}}
	r.Launcher = New(Config{
		Driver: &r.driver, Objects: &r.objects, Streams: fakeHandles[gpubackend.Stream]{},
		Kernels: fakeHandles[gpubackend.Function]{},
		Fail:    func(result gpubackend.Result) { r.failed = append(r.failed, result) },
		Count:   func(c handover.Counter, n uint64) { r.counts[c] += n },
	})
	return r
}

// send executes a launch with a tail behind its words.
func (r *rig) send(reply bool, tail []byte, words ...uint64) gpubackend.Result {
	r.command = arena.Command{N: len(words)}
	if reply {
		r.command.Flags = wire.CommandFlagReply
	}
	copy(r.command.Words[:], words)
	r.command.Body = make([]byte, 8*len(words), 8*len(words)+len(tail))
	r.command.Body = append(r.command.Body, tail...)
	r.call.Start(&r.command)
	return r.Handlers()[gpubackend.OpLaunchKernel].Run(&r.call)
}

// words are those of a launch of x blocks.
func words(stream, x, parameters, attributes uint64) []uint64 {
	return []uint64{105, 100 + stream, x | 2<<32, 3 | 4<<32, 5 | 6<<32, 7 | attributes<<32,
		parameters}
}

func TestLaunchIsDecoded(t *testing.T) {
	r := newRig()
	if got := r.send(false, []byte{1, 2, 3, 4, 5, 6, 7, 8},
		words(9, 1, 7, 0)...); got != gpubackend.Success {
		t.Fatal(got)
	}
	if len(r.driver.launched) != 0 || !r.Collected() {
		t.Fatal("launched at once")
	}
	if r.Flush(); r.Collected() || len(r.driver.launched) != 1 {
		t.Fatalf("%d launches after the flush", len(r.driver.launched))
	}
	l := r.driver.launched[0]
	if l.Function != 5 || l.Stream != 9 || l.Grid != [3]uint32{1, 2, 3} ||
		l.Block != [3]uint32{4, 5, 6} || l.Shared != 7 ||
		len(l.Parameters) != 7 || l.Parameters[6] != 7 {
		t.Errorf("%+v", l)
	}
}

// TestLaunchesThatAreNotCollected, with attributes or an answer, come behind those that were.
func TestLaunchesThatAreNotCollected(t *testing.T) {
	r := newRig()
	event := r.objects.Add(object.Event, 77, 0)
	attribute := make([]byte, cudaabi.LaunchAttributeSize)
	cudaabi.LaunchAttribute(attribute).SetID(cudaabi.LaunchAttributeLaunchCompletionEvent)
	cudaabi.LaunchAttribute(attribute).Value().SetLaunchCompletionEventEvent(event)
	r.send(false, nil, words(9, 1, 0, 0)...)
	if got := r.send(false, append(make([]byte, 8), attribute...),
		words(9, 2, 3, 1)...); got != gpubackend.Success {
		t.Fatal(got)
	}
	r.send(false, nil, words(9, 3, 0, 0)...)
	if got := r.send(true, nil, words(9, 0, 0, 0)...); got != gpubackend.InvalidValue {
		t.Fatalf("a launch that fails: %v", got)
	}
	r.send(true, nil, words(9, 4, 0, 0)...)
	for i, l := range r.driver.launched {
		if l.Grid[0] != uint32(i+1) {
			t.Errorf("launch %d came as number %d", l.Grid[0], i+1)
		}
	}
	if n := len(r.driver.launched); n != 4 || len(r.failed) != 0 {
		t.Fatalf("%d launches, failed %v", n, r.failed)
	}
	attributes := cudaabi.LaunchAttribute(r.driver.launched[1].Attributes)
	if got := attributes.Value().LaunchCompletionEventEvent(); got != 77 {
		t.Errorf("event %d", got)
	}
}

func TestHostileLaunches(t *testing.T) {
	r := newRig()
	for name, tt := range map[string]struct {
		words []uint64
		tail  int
		want  gpubackend.Result
	}{
		"function":               {[]uint64{1, 100, 1, 1, 1, 0, 0}, 0, gpubackend.InvalidHandle},
		"stream":                 {[]uint64{105, 1, 1, 1, 1, 0, 0}, 0, gpubackend.InvalidHandle},
		"parameters":             {words(9, 1, 9, 0), 8, gpubackend.InvalidValue},
		"parameters without end": {words(9, 1, ^uint64(0), 0), 8, gpubackend.InvalidValue},
		"attributes": {words(9, 1, 0, 1), cudaabi.LaunchAttributeSize - 1,
			gpubackend.InvalidValue},
		"attributes behind": {words(9, 1, 8, 1), cudaabi.LaunchAttributeSize,
			gpubackend.InvalidValue},
		"attributes without end": {words(9, 1, 0, 1<<32-1), 8, gpubackend.InvalidValue},
		"attribute that is unknown": {words(9, 1, 0, 1), cudaabi.LaunchAttributeSize,
			gpubackend.Success},
	} {
		tail := make([]byte, tt.tail)
		if name == "attribute that is unknown" {
			tail[0], tt.want = 13, gpubackend.InvalidValue
		}
		if got := r.send(false, tail, tt.words...); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if r.Flush(); len(r.driver.launched) != 0 {
		t.Errorf("launched %+v", r.driver.launched)
	}
}

// TestOrderOfStreams: each stream keeps its order, and the legacy stream that with all others.
func TestOrderOfStreams(t *testing.T) {
	r := newRig()
	legacy := uint64(gpubackend.LegacyStream)
	x := uint64(0)
	for i := range uint64(1000) {
		stream := 10 + i%3
		if i >= 500 { // more than there are groups
			stream = 10 + i%(maxGroups+3)
		}
		if i%97 == 0 {
			stream = legacy
		}
		x++
		r.send(false, nil, words(stream, x, 0, 0)...)
	}
	r.Flush()
	last, barrier := map[gpubackend.Stream]uint32{}, uint32(0)
	for i, l := range r.driver.launched {
		n := l.Grid[0]
		if n <= last[l.Stream] || n <= barrier {
			t.Fatalf("launch %d of stream %d came after %d and %d", n, l.Stream, last[l.Stream],
				barrier)
		}
		if last[l.Stream] = n; l.Stream == gpubackend.LegacyStream {
			if barrier = n; i+1 != int(n) {
				t.Fatalf("launch %d of the legacy stream came as number %d", n, i+1)
			}
		}
	}
	r.Report()
	r.Report()
	if n := len(r.driver.launched); n != 1000 || r.counts[handover.Launches] != 1000 {
		t.Errorf("%d launched, %d counted", n, r.counts[handover.Launches])
	}
	if n := len(r.driver.batches); r.counts[handover.LaunchFlushes] != uint64(n) || n > 600 {
		t.Errorf("%d batches, %d counted", n, r.counts[handover.LaunchFlushes])
	}
}

// TestLaunchesThatFail are skipped, and told of.
func TestLaunchesThatFail(t *testing.T) {
	r := newRig()
	for _, x := range []uint64{1, 0, 2, 0, 0, 3, 0} {
		r.send(false, nil, words(9, x, 0, 0)...)
	}
	r.Flush()
	if len(r.driver.launched) != 3 || len(r.failed) != 4 {
		t.Errorf("%d launched, failed %v", len(r.driver.launched), r.failed)
	}
}

func BenchmarkLaunch(b *testing.B) {
	r := newRig()
	r.driver.forget = true
	r.send(false, make([]byte, 8), words(9, 1, 8, 0)...)
	run := r.Handlers()[gpubackend.OpLaunchKernel].Run
	b.ReportAllocs()
	for b.Loop() {
		if run(&r.call) != gpubackend.Success {
			b.Fatal("refused")
		}
	}
}
