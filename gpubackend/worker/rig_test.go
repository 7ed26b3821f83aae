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

func (f *fakeDriver) Open([]string) (*gpubackend.Inventory, gpubackend.Result) {
	return &gpubackend.Inventory{Device: make([]wire.InventoryDevice, 1)}, gpubackend.Success
}
func (f *fakeDriver) Warm(int) gpubackend.Result { return gpubackend.Success }
func (f *fakeDriver) Suits([]string) bool        { return !f.unsuited }
func (f *fakeDriver) MemAllocNow(uint64) (uint64, bool, gpubackend.Result) {
	return 0, false, gpubackend.NotSupported
}
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
func (f *fakeDriver) LaunchDevices([]gpubackend.Launch, uint32) gpubackend.Result {
	return gpubackend.NotSupported
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
		images: new(atomic.Uint64),
		policy: handover.Policy{BatchCommands: 512, BatchBytes: 64 << 10},
	}
	if r.kick, err = eventfd.New(); err != nil {
		t.Fatal(err)
	}
	if r.files, err = sleeping.NewFiles(r.kick); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.files.Close)
	var end func()
	r.offers, end = hub.Worker()
	t.Cleanup(end)
	r.places, r.queue = addresses.NewPlaces(), r.newQueue(-1)
	r.use(r.driver)
	t.Cleanup(func() { r.sharing.Close(); r.memory.Close(); r.pools.Close(); r.exports.Close() })
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
