// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/paracuda/paracuda/gpubackend"
)

// slowStreams says what may run when, by the rules of CUDA's manual: it has for each operation the
// set of all that it must come after. Operations are host functions, which the test completes when
// it likes.
type slowStreams struct {
	before  []map[int]bool // of each operation: those that it must come after
	blocked map[int]bool   // blocking streams; the legacy stream is number 0
	ops     map[int][]int  // of each stream
	records map[int][]int  // of each event: the operations before its latest record
	waits   map[int][]int  // of each stream: what its next operation must wait for besides
}

func newSlowStreams() *slowStreams {
	return &slowStreams{blocked: map[int]bool{}, ops: map[int][]int{}, records: map[int][]int{},
		waits: map[int][]int{}}
}

// earlier returns what an operation comes after that is put into a stream now.
func (m *slowStreams) earlier(stream int) []int {
	list := append([]int(nil), m.ops[stream]...)
	list = append(list, m.waits[stream]...)
	for other, blocking := range m.blocked {
		if blocking && stream == 0 {
			list = append(append(list, m.ops[other]...), m.waits[other]...)
		}
	}
	if stream != 0 && m.blocked[stream] {
		list = append(append(list, m.ops[0]...), m.waits[0]...)
	}
	return list
}

func (m *slowStreams) add(stream int) int {
	set := map[int]bool{}
	for _, op := range m.earlier(stream) {
		set[op] = true
		maps.Copy(set, m.before[op])
	}
	m.before = append(m.before, set)
	m.ops[stream] = append(m.ops[stream], len(m.before)-1)
	return len(m.before) - 1
}

// due returns the operations that must have begun.
func (m *slowStreams) due(finished map[int]bool) map[int]bool {
	due := map[int]bool{}
	for op, set := range m.before {
		begun := true
		for p := range set {
			begun = begun && finished[p]
		}
		if begun {
			due[op] = true
		}
	}
	return due
}

// orderingTest drives a device and the model with the same calls.
type orderingTest struct {
	t       *testing.T
	d       *Device
	m       *slowStreams
	streams []gpubackend.Stream
	events  []gpubackend.Event
	release []func()

	mu       sync.Mutex
	begun    map[int]bool
	finished map[int]bool
}

func (o *orderingTest) operation(stream int) {
	op := o.m.add(stream)
	release, result := o.d.HostFunc(o.streams[stream], uint64(op), func(token uint64) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.begun[int(token)] = true
	})
	ok(o.t, result)
	o.release = append(o.release, release)
}

// finish completes one operation that has begun.
func (o *orderingTest) finish(random *rand.Rand) {
	o.mu.Lock()
	var open []int
	for op := range o.m.before {
		if o.begun[op] && !o.finished[op] {
			open = append(open, op)
		}
	}
	o.mu.Unlock()
	if len(open) > 0 {
		op := open[random.IntN(len(open))]
		o.finished[op] = true
		o.release[op]()
	}
}

func (o *orderingTest) step(random *rand.Rand) {
	stream, event := random.IntN(len(o.streams)), random.IntN(len(o.events))
	switch random.IntN(8) {
	case 0, 1, 2:
		o.operation(stream)
	case 3:
		ok(o.t, o.d.EventRecordWithFlags(o.events[event], o.streams[stream], 0))
		o.m.records[event] = o.m.earlier(stream)
		o.m.waits[stream] = o.m.earlier(stream) // the record is an operation too
	case 4:
		ok(o.t, o.d.StreamWaitEvent(o.streams[stream], o.events[event], 0))
		if record, recorded := o.m.records[event]; recorded {
			o.m.waits[stream] = append(o.m.earlier(stream), record...)
		}
	default:
		o.finish(random)
	}
	synctest.Wait()
	o.compare()
}

func (o *orderingTest) compare() {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	due := o.m.due(o.finished)
	if !maps.Equal(due, o.begun) {
		o.t.Fatalf("begun %v, want %v", o.begun, due)
	}
	for i, s := range o.streams {
		idle := o.complete(o.m.earlier(i))
		if i != 0 {
			idle = o.complete(append(append([]int(nil), o.m.ops[i]...), o.m.waits[i]...))
		}
		if got := o.d.StreamQuery(s) == gpubackend.Success; got != idle {
			o.t.Fatalf("stream %d idle: %v, want %v", i, got, idle)
		}
	}
	for i, e := range o.events {
		if got, done := o.d.EventQuery(e) == gpubackend.Success,
			o.complete(o.m.records[i]); got != done {
			o.t.Fatalf("event %d complete: %v, want %v", i, got, done)
		}
	}
}

// complete tells whether operations are finished.
func (o *orderingTest) complete(ops []int) bool {
	for _, op := range ops {
		if !o.finished[op] {
			return false
		}
	}
	return true
}

func TestOrderAgreesWithSlowStreams(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			o := &orderingTest{t: t, d: newDevice(t, Options{}), m: newSlowStreams()}
			o.begun, o.finished = map[int]bool{}, map[int]bool{}
			o.streams = []gpubackend.Stream{gpubackend.LegacyStream}
			for i := 1; i < 5; i++ {
				flags := uint64(i % 2)
				o.m.blocked[i] = flags == 0
				o.streams = append(o.streams, newStream(t, o.d, flags))
			}
			for range 3 {
				o.events = append(o.events, newEvent(t, o.d))
			}
			for range 120 {
				o.step(random)
			}
			for range o.m.before {
				o.finish(random)
				synctest.Wait()
			}
			o.compare()
			ok(t, o.d.ContextQuery())
		})
	}
}
