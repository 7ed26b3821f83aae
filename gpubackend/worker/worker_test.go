// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"io"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/eventfd"
	"github.com/paracuda/paracuda/gpubackend/worker/queue"
	"github.com/paracuda/paracuda/gpubackend/worker/sleeping"
	"github.com/paracuda/paracuda/gpubackend/worker/watchdog"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// fakeDriver is a device that remembers what it was asked. Streams and events are done at once
// unless ready says otherwise.
type fakeDriver struct {
	gpubackend.Unsupported
	gpubackend.Unsaved
	launches []gpubackend.Launch
	keep     bool
	ready    gpubackend.Result
	text     []gpubackend.Output
	context  gpubackend.Context
	unsuited bool

	memory []byte            // that can be moved
	away   bool              // it is
	moves  gpubackend.Result // of saving and returning it

	announces bool
	announced []uint32
	arrived   int
}

func (f *fakeDriver) Open([]string) (*gpubackend.Snapshot, gpubackend.Result) {
	return &gpubackend.Snapshot{Device: make([]wire.SnapshotDevice, 1)}, gpubackend.Success
}
func (f *fakeDriver) Warm() gpubackend.Result { return gpubackend.Success }
func (f *fakeDriver) Suits([]string) bool     { return !f.unsuited }
func (f *fakeDriver) SetCurrent(c gpubackend.Context) gpubackend.Result {
	f.context = c
	return gpubackend.Success
}
func (f *fakeDriver) Announce(
	_ gpubackend.Stream, _ bool, _ uint64, value uint32,
) gpubackend.Result {
	if !f.announces {
		return gpubackend.NotSupported
	}
	f.announced = append(f.announced, value)
	return gpubackend.Success
}
func (f *fakeDriver) Announced(uint64, uint32) bool   { f.arrived++; return true }
func (f *fakeDriver) ContextQuery() gpubackend.Result { return f.ready }
func (f *fakeDriver) EventCreate(uint64) (gpubackend.Event, gpubackend.Result) {
	return 1, gpubackend.Success
}
func (f *fakeDriver) EventRecordWithFlags(
	gpubackend.Event, gpubackend.Stream, uint64,
) gpubackend.Result {
	return gpubackend.Success
}
func (f *fakeDriver) EventQuery(gpubackend.Event) gpubackend.Result   { return f.ready }
func (f *fakeDriver) StreamQuery(gpubackend.Stream) gpubackend.Result { return f.ready }
func (f *fakeDriver) Launch(l *gpubackend.Launch) gpubackend.Result {
	if f.keep {
		c := *l
		c.Parameters = append([]byte(nil), l.Parameters...)
		f.launches = append(f.launches, c)
	}
	return gpubackend.Success
}
func (f *fakeDriver) LaunchAll(ls []gpubackend.Launch) (int, gpubackend.Result) {
	for i := range ls {
		if ls[i].Grid[0] == 0 {
			return i, gpubackend.InvalidValue
		}
		f.Launch(&ls[i])
	}
	return len(ls), gpubackend.Success
}
func (f *fakeDriver) Copy(_, _, _ uint64, _ gpubackend.Stream) gpubackend.Result {
	return gpubackend.Success
}
func (f *fakeDriver) CopyIn(uint64, []byte, gpubackend.Stream) gpubackend.Result {
	return gpubackend.Success
}
func (f *fakeDriver) CopyOut([]byte, uint64) gpubackend.Result { return gpubackend.Success }
func (f *fakeDriver) CopyBox(*gpubackend.Box, gpubackend.Stream) gpubackend.Result {
	return gpubackend.Success
}
func (f *fakeDriver) Staging(uint64) (uint64, int, gpubackend.Result) {
	return 0, -1, gpubackend.NotSupported
}
func (f *fakeDriver) Unstage(uint64) {}
func (f *fakeDriver) HostRegister(uint64, uint64, bool) gpubackend.Result {
	return gpubackend.Success
}
func (f *fakeDriver) HostPageable(uint64, uint64) gpubackend.Result   { return gpubackend.Success }
func (f *fakeDriver) HostUnregister(uint64, uint64) gpubackend.Result { return gpubackend.Success }
func (f *fakeDriver) HostFunc(gpubackend.Stream, uint64, func(uint64)) (func(), gpubackend.Result) {
	return func() {}, gpubackend.Success
}
func (f *fakeDriver) Output() []gpubackend.Output {
	t := f.text
	f.text = nil
	return t
}
func (f *fakeDriver) Close() {}

// rig is a worker without processes around it, and the library's side of its arena.
type rig struct {
	*Worker
	driver   *fakeDriver
	mover    moves.Mover // nil: it has none
	mem      []byte
	kick     int // the worker's
	guest    *virtqueuetest.Guest
	where    handover.Queue // in its memory
	appended uint32
	context  uint64
	function uint64
}

func newRig(t testing.TB) *rig {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	state, err := handover.NewState()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(state.Close)
	r := &rig{driver: &fakeDriver{}, mem: make([]byte, arena.MinBytes)}
	a, err := arena.New(r.mem)
	if err != nil {
		t.Fatal(err)
	}
	r.Worker = &Worker{
		watchdog: &watchdog.Watchdog{},
		log:      logrus.NewEntry(log), driver: r.driver, state: state,
		unknown: map[gpubackend.Op]bool{}, images: new(atomic.Uint64),
		policy: handover.Policy{BatchCommands: 512, BatchBytes: 64 << 10},
	}
	if r.kick, err = eventfd.New(); err != nil {
		t.Fatal(err)
	}
	if r.files, err = sleeping.NewFiles(r.kick); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.files.Close)
	r.places, r.queue = addresses.NewPlaces(), r.newQueue(-1)
	r.use(r.driver)
	t.Cleanup(func() { r.sharing.Close(); r.pools.Close(); r.exports.Close() })
	r.queue.Use(a)
	r.context = r.objects.Add(object.Context, 1, 0)
	r.function = r.objects.Add(object.Function, 2, r.context)
	return r
}

// newQueue is a queue that has no ring yet. It interrupts the guest by call.
func (r *rig) newQueue(call int) *queue.Queue {
	return queue.New(queue.Config{
		State: r.state, Host: r.host, Dirty: &r.dirty, Call: call, Log: r.log,
		Attach: func(a *arena.Arena) { r.arena = a },
	})
}

// use gives the worker another driver.
func (r *rig) use(d gpubackend.Driver) {
	r.equip(d)
	r.hello.Driver = r.driver // the tests open d themselves
	if result := r.hello.Reopen(nil); result != gpubackend.Success {
		panic(result)
	}
}

// equip gives the worker another driver, whose program hasn't said HELLO.
func (r *rig) equip(d gpubackend.Driver) {
	r.Worker.driver = d
	r.assemble()
	if r.mover != nil {
		r.copies.Connect(r.mover)
	}
}

// send appends a command with a tail behind its words.
func (r *rig) send(op gpubackend.Op, reply bool, seq uint32, tail []byte, words ...uint64) {
	size := wire.CommandSize + 8*len(words) + (len(tail)+7)&^7
	if room := wire.RingBytes - int(r.appended%wire.RingBytes); room < size+wire.CommandSize {
		nop := wire.Command{Size: uint32(room)}
		nop.Encode(r.mem[wire.Ring+wire.RingBytes-room:])
		r.appended += uint32(room)
	}
	c := wire.Command{Op: uint16(op), Size: uint32(size), Context: r.context, Seq: seq}
	if reply {
		c.Flags = wire.CommandFlagReply
	}
	b := r.mem[wire.Ring+int(r.appended%wire.RingBytes):]
	c.Encode(b)
	for i, w := range words {
		binary.LittleEndian.PutUint64(b[wire.CommandSize+8*i:], w)
	}
	copy(b[wire.CommandSize+8*len(words):], tail)
	r.appended += uint32(size)
	binary.LittleEndian.PutUint32(r.mem[wire.ArenaHeaderAppendedOffset:], r.appended)
}

// call sends a command and returns its answer, or pending.
func (r *rig) call(t testing.TB, op gpubackend.Op, words ...uint64) gpubackend.Result {
	t.Helper()
	seq := r.slot().Done + 1
	r.send(op, true, seq, nil, words...)
	if _, err := r.runCommands(); err != nil {
		t.Fatal(err)
	}
	s := r.slot()
	if s.Done != seq {
		return call.Pending
	}
	return gpubackend.Result(s.Result)
}

// turns is as many turns of the loop as it takes at least until the driver is asked for a failure.
const turns = 64

// awaitContext has a call wait for the work of a context, which the driver says isn't done.
func (r *rig) awaitContext(t testing.TB, context uint64) {
	t.Helper()
	before := r.driver.ready
	r.driver.ready = gpubackend.NotReady
	c := call.New(nil)
	c.Start(&arena.Command{})
	c.Context = context
	result := r.waiting.WhenIdle(&c, func() (uint64, gpubackend.Result) { return 0, 0 })
	if result != call.Pending {
		t.Fatalf("the call doesn't wait: %v", result)
	}
	r.driver.ready = before
}

func (r *rig) slot() (s wire.Slot) {
	s.Decode(r.mem[wire.Slots:])
	return s
}

func (r *rig) launch(tail []byte) {
	r.send(gpubackend.OpLaunchKernel, false, 0, tail, r.function, 0, 1|1<<32, 1|32<<32, 1|1<<32, 0,
		uint64(len(tail)))
}

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
	r.withQueue(t) // looked at for mappings that are named
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
