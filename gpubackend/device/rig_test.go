// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/control"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/wire/wiretest"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// vm is a front end and a guest's driver before a device.
type vm struct {
	t        testing.TB
	dev      *Device
	memory   *atomic.Pointer[vhostuser.Memory] // that the device was given last
	front    *vhostusertest.Frontend
	guest    *virtqueuetest.Guest
	queues   []*vhostusertest.Queue
	features uint64
	request  uint64 // where control requests lie
	events   uint64 // where chain headers and records lie
	arena    uint64
	appended uint32
	context  uint64 // of the commands
	ended    chan error
}

const (
	guestBytes = 192 << 20
	arenaBytes = 2 << 20
	queueSize  = 64
	soon       = time.Minute
)

func settingsOf(t testing.TB, text ...string) settings.Settings {
	t.Helper()
	s := settings.Default()
	for _, x := range append([]string{"channels=3", "arena=2M", "soft-memory=64M", "starts=0"},
		text...) {
		if err := s.Set(x); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func newVM(t testing.TB, spawn Spawner, limits Timeouts, settings ...string) *vm {
	t.Helper()
	return newTimedVM(t, spawn, limits, nil, settings...)
}

// newTimedVM is one with a clock for the pace of starts.
func newTimedVM(
	t testing.TB, spawn Spawner, limits Timeouts, clock pace.Clock, settings ...string,
) *vm {
	t.Helper()
	return newVMOf(t, Config{Spawn: spawn, Timeouts: limits, Clock: clock}, settings...)
}

// newVMOf is one with a device that is set up so, on the software GPU.
func newVMOf(t testing.TB, c Config, settings ...string) *vm {
	t.Helper()
	v := &vm{t: t, guest: virtqueuetest.NewGuest(t, virtqueuetest.Span{Addr: 0, Size: guestBytes}),
		ended: make(chan error, 1), memory: &atomic.Pointer[vhostuser.Memory]{}}
	c.GPU, c.Settings, c.Generation, c.Log = "soft", settingsOf(t, settings...), 7, quiet()
	v.dev = New(c)
	near, far := vhostusertest.Pair(t)
	session, err := vhostuser.New(far, noted{v.dev, v}, vhostuser.Options{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { v.ended <- session.Run(context.Background()) }()
	v.front = vhostusertest.NewFrontend(t, near)
	v.features = v.front.Realize(v.dev.NumQueues()) &^ vhostuser.FeatureLogAll
	v.front.MustSend(vhostuser.SetFeatures, vhostusertest.Word(v.features))
	v.front.SetMemory(v.guest)
	v.guest.Alloc(4096, 4096)
	for i := range v.dev.NumQueues() {
		v.queues = append(v.queues, vhostusertest.NewQueue(t, v.guest, i, queueSize))
	}
	v.request, v.events = v.guest.Alloc(4096, 4096), v.guest.Alloc(1<<16, 4096)
	v.arena = v.guest.Alloc(arenaBytes, 4096)
	v.front.Start(v.queues...)
	t.Cleanup(v.close)
	return v
}

// noted is the device of a VM, which notes its memory.
type noted struct {
	*Device
	v *vm
}

func (n noted) SetMemory(m *vhostuser.Memory) error {
	n.v.memory.Store(m)
	return n.Device.SetMemory(m)
}

// greetedVM is one whose driver has said hello.
func greetedVM(t testing.TB, spawn Spawner, limits Timeouts, settings ...string) *vm {
	t.Helper()
	v := newVM(t, spawn, limits, settings...)
	v.hello()
	return v
}

// close ends the session and waits for everything to be gone.
func (v *vm) close() {
	if v.ended == nil {
		return
	}
	_ = v.front.Sock.Close()
	select {
	case <-v.ended:
	case <-time.After(soon):
		v.t.Error("the session does not end")
		b := make([]byte, 1<<20)
		v.t.Logf("%s", b[:runtime.Stack(b, true)])
	}
	v.ended = nil
}

func (v *vm) kick(q int) { _, _ = unix.Write(v.queues[q].Kick, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// reap waits for n chains of a queue and returns their heads.
func (v *vm) reap(q, n int) (heads []uint32) {
	v.t.Helper()
	for end := time.Now().Add(soon); len(heads) < n; {
		head, _ := v.next(q, end)
		heads = append(heads, head)
	}
	return heads
}

// written is how much was written to the next chain that comes back.
func (v *vm) written(q int) uint32 {
	v.t.Helper()
	_, n := v.next(q, time.Now().Add(soon))
	return n
}

// next waits for a chain that comes back, until a time.
func (v *vm) next(q int, end time.Time) (head, written uint32) {
	v.t.Helper()
	for ; ; time.Sleep(50 * time.Microsecond) {
		if head, written, ok := v.queues[q].Driver.Reap(); ok {
			return head, written
		}
		if time.Now().After(end) {
			b := make([]byte, 1<<20)
			v.t.Fatalf("queue %d: no chain came back\n%s", q, b[:runtime.Stack(b, true)])
		}
	}
}

// post makes a control request available.
func (v *vm) post(at uint64, r wire.ControlRequest) {
	v.t.Helper()
	var b [wire.ControlRequestSize]byte
	r.Encode(b[:])
	v.guest.Write(v.request+at, b[:])
	v.guest.Write(v.request+at+64, make([]byte, control.RoomForSettings))
	if _, err := v.queues[0].Driver.Add(
		virtqueuetest.Desc{Addr: v.request + at, Len: uint32(len(b))},
		virtqueuetest.Desc{Addr: v.request + at + 64, Len: control.RoomForSettings,
			Flags: virtqueuetest.Write},
	); err != nil {
		v.t.Fatal(err)
	}
	v.kick(0)
}

// ask makes a control request and returns the response.
func (v *vm) ask(r wire.ControlRequest) (out wire.ControlResponse) {
	v.t.Helper()
	v.post(0, r)
	v.reap(0, 1)
	out.Decode(v.guest.Read(v.request+64, wire.ControlResponseSize))
	return out
}

func (v *vm) must(r wire.ControlRequest) {
	v.t.Helper()
	if a := v.ask(r); a.Status != wire.StatusOk {
		v.t.Fatalf("request %+v: status %d", r, a.Status)
	}
}

func (v *vm) hello() { v.must(wire.ControlRequest{Type: wire.ControlHello, Number: wire.Version}) }

// nextDriver begins with a device that was reset.
func (v *vm) nextDriver() {
	v.t.Helper()
	for i := range v.queues {
		v.queues[i] = vhostusertest.NewQueue(v.t, v.guest, i, queueSize)
	}
	v.front.MustSend(vhostuser.SetFeatures, vhostusertest.Word(v.features))
	v.front.Start(v.queues...)
	v.hello()
}

func (v *vm) open(c uint32) {
	v.t.Helper()
	v.must(wire.ControlRequest{Type: wire.ControlOpen, Channel: c, Pid: 9})
}
func (v *vm) closeChannel(c uint32) {
	v.t.Helper()
	v.must(wire.ControlRequest{Type: wire.ControlClose, Channel: c})
}

// add makes a chain of a channel available.
func (v *vm) add(channel int, index uint64, h wire.ChainHeader, runs ...wire.Run) {
	v.t.Helper()
	at := v.events + 256*index
	wiretest.Chain(v.guest.Write, at, h, runs...)
	chain := []virtqueuetest.Desc{{Addr: at, Len: wire.ChainHeaderSize}}
	if h.Type == wire.ChainEvent {
		chain = append(chain,
			virtqueuetest.Desc{Addr: at + 128, Len: wire.EventRecordSize,
				Flags: virtqueuetest.Write})
	}
	if _, err := v.queues[1+channel].Driver.Add(chain...); err != nil {
		v.t.Fatal(err)
	}
	v.kick(1 + channel)
}

// furnish gives a channel what every one has: an arena, an EVENT, and a MAP. Three chains.
func (v *vm) furnish(channel int) {
	v.t.Helper()
	v.guest.Write(v.arena, make([]byte, 4096))
	// without the answers to an earlier driver
	v.guest.Write(v.arena+wire.Slots, make([]byte, wire.SlotBytes))
	v.appended, v.context = 0, 0
	v.add(channel, 0, wire.ChainHeader{Type: wire.ChainArena, Bytes: arenaBytes},
		wire.Run{Address: v.arena, Bytes: arenaBytes})
	v.add(channel, 1, wire.ChainHeader{Type: wire.ChainEvent})
	v.add(channel, 2, wire.ChainHeader{Type: wire.ChainMap, Id: 5, Bytes: 8192},
		wire.Run{Address: v.arena, Bytes: 8192})
}

// send appends a command for the worker.
func (v *vm) send(channel int, op gpubackend.Op, seq uint32, words ...uint64) {
	c := wire.Command{Op: uint16(op), Flags: wire.CommandFlagReply,
		Size: uint32(wire.CommandSize + 8*len(words)), Seq: seq, Context: v.context}
	v.put(c, words...)
	v.submit(channel)
}

// put writes a command to the ring. It doesn't wrap.
func (v *vm) put(c wire.Command, words ...uint64) {
	if room := wire.RingBytes - v.appended%wire.RingBytes; room < c.Size+wire.CommandSize {
		nop := make([]byte, wire.CommandSize)
		(&wire.Command{Size: room}).Encode(nop)
		v.guest.Write(v.arena+wire.Ring+uint64(v.appended%wire.RingBytes), nop)
		v.appended += room
	}
	b := make([]byte, wire.CommandSize)
	c.Encode(b)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	v.guest.Write(v.arena+wire.Ring+uint64(v.appended%wire.RingBytes), b)
	v.appended += c.Size
}

// submit has a channel's worker look at what was put.
func (v *vm) submit(channel int) {
	v.guest.Write(v.arena+wire.ArenaHeaderAppendedOffset,
		binary.LittleEndian.AppendUint32(nil, v.appended))
	v.kick(1 + channel)
}

// call sends a command to the worker and returns the result.
func (v *vm) call(
	channel int, op gpubackend.Op, seq uint32, words ...uint64,
) (gpubackend.Result, error) {
	v.send(channel, op, seq, words...)
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
		v.kick(1 + channel)
		var s wire.Slot
		s.Decode(v.guest.Read(v.arena+wire.Slots, wire.SlotBytes))
		if s.Done == seq {
			return gpubackend.Result(s.Result), nil
		}
	}
	return 0, errors.New("no answer")
}

// greet says hello to a channel's worker, for a process with the given variables.
func (v *vm) greet(channel int, env ...string) {
	v.t.Helper()
	const inventory = 1 << 16
	text := strings.Join(env, "\x00")
	v.guest.Write(v.arena+wire.Bulk+inventory, []byte(text))
	bulk := uint64(wire.BufferBulk)<<56 | wire.Bulk
	r, err := v.call(channel, gpubackend.Op(wire.OpHello), 1, bulk+inventory, uint64(len(text)),
		bulk, inventory)
	if err != nil || r != 0 {
		v.t.Fatalf("hello: %d, %v", r, err)
	}
}

// askMover has a channel's worker ask for the mover, as a copy does, and doesn't wait.
func (v *vm) askMover(channel int) *workers.Worker {
	w := v.worker(channel)
	v.dev.said(w, &handover.Message{Kind: handover.KindMover}, nil)
	return w
}

// copies does what the first copy of a program does: its worker has a connection to the mover, or
// was told that there is none.
func (v *vm) copies(channel int) (connected bool) {
	v.t.Helper()
	w := v.askMover(channel)
	for end := time.Now().Add(soon); ; time.Sleep(50 * time.Microsecond) {
		m, known := v.dev.reach.Of(w)
		if m != nil || !known {
			return m != nil && m == v.dev.movers.Current()
		}
		if time.Now().After(end) {
			v.t.Fatal("a worker that asks for the mover isn't answered")
		}
	}
}

// mustCopy fails the test unless a channel's worker gets the mover.
func (v *vm) mustCopy(channel int) {
	v.t.Helper()
	if !v.copies(channel) {
		v.t.Fatal("the program has no mover")
	}
}

// program does what a process with these variables does at its start.
func (v *vm) program(channel int, env ...string) {
	v.t.Helper()
	v.open(uint32(channel))
	v.furnish(channel)
	v.greet(channel, env...)
}
