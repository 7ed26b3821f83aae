// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/wire/wiretest"
	"github.com/paracuda/paracuda/gpubackend/worker/eventfd"
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

const (
	raceRounds      = 200000 // unless roundsVariable says otherwise
	roundsVariable  = "PARACUDA_RACE_ROUNDS"
	raceRoundsShort = 20000
	// stillTime is how long nothing moves before a wake-up counts as lost. A round takes
	// microseconds.
	stillTime    = 60 * time.Second
	racerThreads = 3 // of wakeups.c
)

// TestNoWakeupIsLost races the library, in a process of its own, with the worker's loop: both sleep
// at random moments. Between them is the kernel driver's part of waking, in this process.
func TestNoWakeupIsLost(t *testing.T) { raceWakeups(t, func(*raceRig) {}) }

// TestNoWakeupIsLostAtAGate does so while somebody opens and closes the gate.
func TestNoWakeupIsLostAtAGate(t *testing.T) {
	raceWakeups(t, func(r *raceRig) {
		r.gate, r.gateEntry = newGate(t), 3
		r.use(r.Worker.driver)
		var stopped sync.WaitGroup
		stopped.Add(1)
		go func() {
			defer stopped.Done()
			for !r.over.Load() {
				r.gate.Set(gate.State{
					Open: rand.IntN(2) > 0, Free: rand.IntN(4) == 0, Attend: rand.IntN(2) > 0,
					Soon:     rand.IntN(4) == 0,
					InFlight: time.Duration(rand.IntN(3)) * time.Millisecond,
				})
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			}
		}()
		t.Cleanup(stopped.Wait)
	})
}

func raceWakeups(t *testing.T, prepare func(*raceRig)) {
	t.Helper()
	rounds := raceRounds
	if testing.Short() {
		rounds = raceRoundsShort
	}
	if text := os.Getenv(roundsVariable); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
			t.Fatalf("%s=%q: want a number of rounds", roundsVariable, text)
		}
	}
	r := newRaceRig(t)
	prepare(r)
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ended <- r.loop()
	}()
	driven := make(chan struct{})
	go func() {
		defer close(driven)
		r.driveQueue()
	}()
	library := r.startLibrary(t, rounds)
	r.watch(t, library)
	r.messages <- inbox.Received{Err: io.EOF}
	r.files.Wake()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("the worker's loop: %v", err)
	}
	r.over.Store(true)
	<-driven
	_ = r.callFile.Close()
	c := r.state.Counters()
	t.Logf("%d rounds: %v", rounds, c.Map())
	for _, n := range []handover.Counter{handover.Sleeps, handover.Kicks, handover.Interrupts} {
		if c[n] < uint64(rounds)/1000 {
			t.Errorf("%d %s in %d rounds: it was no race", c[n], handover.Described[n].Name, rounds)
		}
	}
}

// raceRig is a worker with a queue, and what the library's process needs to reach it.
type raceRig struct {
	*rig
	guest     *virtqueuetest.Guest
	queueSide *virtqueuetest.Driver
	control   []byte // struct control of wakeups.c
	controlFD int
	arenaAt   uint64
	callFile  *os.File
	over      atomic.Bool
}

// Offsets in struct control.
const (
	controlWakes  = 0
	controlRounds = 4
	controlDoing  = controlRounds + 4*racerThreads
)

func newRaceRig(t *testing.T) *raceRig {
	t.Helper()
	r := &raceRig{rig: newRig(t)}
	t.Cleanup(func() { // a worker keeps it mapped until it ends
		if r.arena != nil {
			space.Unreserve(addressOf(r.arena.BulkArea())-wire.Bulk, arena.MinBytes)
		}
	})
	r.guest = virtqueuetest.NewGuest(t, virtqueuetest.Span{Size: 4 << 20})
	r.guest.Alloc(4096, 4096)
	d := virtqueuetest.NewDriver(r.guest, 64, true)
	r.queueSide = d
	r.messages = make(chan inbox.Received, 1)
	call, err := eventfd.New()
	if err != nil {
		t.Fatal(err)
	}
	r.callFile = os.NewFile(uintptr(call), "call")
	r.queue = r.newQueue(call)
	r.use(&jitterDriver{fakeDriver: r.driver})
	r.arena = nil // it comes as a chain
	q := handover.Queue{Size: 64, Desc: d.Desc, Avail: d.Avail, Used: d.Used, EventIdx: true}
	r.startQueue(t, r.guest, &q)
	r.controlFD = virtqueuetest.MemFD(t, 4096)
	if r.control, err = unix.Mmap(r.controlFD, 0, 4096, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(r.control) })
	r.offer(t)
	return r
}

// offer makes the arena and an EVENT chain available, as the driver does.
func (r *raceRig) offer(t *testing.T) {
	t.Helper()
	r.arenaAt = r.guest.Alloc(arena.MinBytes, 4096)
	at := r.guest.Alloc(wire.ChainHeaderSize+wire.RunSize, 8)
	wiretest.Chain(r.guest.Write, at,
		wire.ChainHeader{Type: wire.ChainArena, Bytes: arena.MinBytes},
		wire.Run{Address: r.arenaAt, Bytes: arena.MinBytes})
	_, err := r.queueSide.Add(virtqueuetest.Desc{Addr: at, Len: wire.ChainHeaderSize})
	if err != nil {
		t.Fatal(err)
	}
	r.offerEvent()
	if took, err := r.queue.Take(); !took || err != nil || r.arena == nil {
		t.Fatalf("the arena was not taken: %v", err)
	}
	r.rig.mem = nil // the arena is elsewhere
}

// offerEvent makes an EVENT chain available. Its memory is reused.
func (r *raceRig) offerEvent() {
	const at = 0 // the first page is set aside for it
	wiretest.Chain(r.guest.Write, at, wire.ChainHeader{Type: wire.ChainEvent})
	_, err := r.queueSide.Add(
		virtqueuetest.Desc{Addr: at, Len: wire.ChainHeaderSize},
		virtqueuetest.Desc{Addr: at + wire.ChainHeaderSize, Len: wire.EventRecordSize,
			Flags: virtqueuetest.Write},
	)
	if err != nil {
		panic(err)
	}
}

// driveQueue is the driver's interrupt handler (guestdriver/kernel/reap.c): it makes the EVENT
// chain available again and wakes those that sleep.
func (r *raceRig) driveQueue() {
	var b [8]byte
	reaped := uint16(0)
	for {
		fds := []unix.PollFd{{Fd: int32(r.callFile.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Ppoll(fds, &unix.Timespec{Nsec: 1e8}, nil); err != nil &&
			err != unix.EINTR || r.over.Load() {
			return
		}
		if fds[0].Revents&unix.POLLIN == 0 {
			continue
		}
		_, _ = unix.Read(int(fds[0].Fd), b[:])
		for again := true; again; again = r.queueSide.UsedIdx() != reaped {
			for {
				if _, _, ok := r.queueSide.Reap(); !ok {
					break
				}
				reaped++
				r.offerEvent()
			}
			if r.queueSide.NeedsKick() {
				eventfd.Notify(r.kick)
			}
			r.queueSide.SetUsedEvent(reaped)
			r.queueSide.Fence()
		}
		r.wakeLibrary()
	}
}

func (r *raceRig) wakeLibrary() {
	wakes := word(r.control[controlWakes:])
	atomic.AddUint32(wakes, 1)
	futexWake(wakes)
}

// startLibrary builds the library's side and starts it.
func (r *raceRig) startLibrary(t *testing.T, rounds int) *exec.Cmd {
	t.Helper()
	const test = "../../guestdriver/libcuda/test"
	if out, err := exec.Command("make", "-s", "-C", test, "wakeups").CombinedOutput(); err != nil {
		t.Fatalf("build the library's side: %v\n%s", err, out)
	}
	program, err := filepath.Abs("../../build/guest/test/wakeups")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, strconv.FormatUint(r.arenaAt, 10), strconv.FormatUint(r.context, 10),
		strconv.FormatUint(r.function, 10), strconv.Itoa(rounds))
	for _, fd := range []int{r.guest.FDs[0], r.kick, r.controlFD} {
		own, err := unix.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(own), "inherited")
		defer file.Close()
		c.ExtraFiles = append(c.ExtraFiles, file)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// watch waits for the library's end, changing the worker's policy while the race goes on. Only
// then: a message wakes the worker, and must not make good what was lost.
func (r *raceRig) watch(t *testing.T, library *exec.Cmd) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- library.Wait() }()
	last, moved, changed := uint32(0), time.Now(), uint32(0)
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("the library's side: %v", err)
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
		now := r.rounds()
		if now != last {
			last, moved = now, time.Now()
		}
		if now-changed > 500 {
			changed = now
			r.changePolicy()
		}
		if time.Since(moved) > stillTime {
			dump := r.dump(library.Process.Pid)
			_ = library.Process.Kill()
			<-ended
			t.Fatalf("nothing has moved for %v after %d rounds: a wake-up was lost\n%s", stillTime,
				now, dump)
		}
	}
}

func (r *raceRig) rounds() (sum uint32) {
	for i := range racerThreads {
		sum += atomic.LoadUint32(word(r.control[controlRounds+4*i:]))
	}
	return sum
}

func (r *raceRig) changePolicy() {
	pick := func(from ...uint32) uint32 { return from[rand.IntN(len(from))] }
	p := handover.Policy{
		SpinHostUs: pick(0, 0, 0, 1, 5, 50), BatchCommands: pick(1, 8, 512, 512),
		BatchBytes:   pick(64, 512, 64<<10, 64<<10),
		BatchDelayUs: pick(0, 0, 0, 5, 100),
	}
	r.messages <- inbox.Received{
		Message: &handover.Message{Kind: handover.KindPolicy, Policy: &p}}
	r.files.Wake()
}

// dump says where both sides are.
func (r *raceRig) dump(pid int) string {
	var s strings.Builder
	header := make([]byte, wire.ArenaHeaderSize)
	_ = r.guest.Mem.Read(header, r.arenaAt)
	var h wire.ArenaHeader
	h.Decode(header)
	fmt.Fprintf(&s, "header: %+v\n", h)
	for i := range racerThreads {
		var slot wire.Slot
		b := make([]byte, wire.SlotBytes)
		_ = r.guest.Mem.Read(b, r.arenaAt+wire.Slots+uint64(i)*wire.SlotBytes)
		slot.Decode(b)
		fmt.Fprintf(&s, "thread %d: %d rounds, doing %d, slot %d answered %d\n", i,
			*word(r.control[controlRounds+4*i:]),
			*word(r.control[controlDoing+4*i:]), i, slot.Done)
	}
	fmt.Fprintf(&s, "queue: %d used; counters %v\n", r.queueSide.UsedIdx(),
		r.state.Counters().Map())
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		fmt.Fprintf(&s, "%s: %s", task, text)
	}
	_ = pprof.Lookup("goroutine").WriteTo(&s, 2)
	return s.String()
}

// jitterDriver takes random times, and now and then isn't ready at once.
type jitterDriver struct {
	*fakeDriver
	asked int
}

func (d *jitterDriver) ContextQuery() gpubackend.Result {
	if d.asked == 0 && rand.IntN(64) == 0 {
		d.asked = rand.IntN(4)
	}
	if d.asked > 0 {
		d.asked--
		return gpubackend.NotReady
	}
	return gpubackend.Success
}

func (d *jitterDriver) LaunchAll(ls []gpubackend.Launch) (int, gpubackend.Result) {
	for i := rand.IntN(1000); i > 0; i-- {
		jitter.Add(1)
	}
	return len(ls), gpubackend.Success
}

var jitter atomic.Uint32
