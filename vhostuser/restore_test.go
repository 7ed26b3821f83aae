// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/inflight"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// keeper holds what a session was told last, with descriptors of its own, as another process does.
type keeper struct {
	tb    testing.TB
	mu    sync.Mutex
	bytes []byte
	fds   []*vhostuser.FD
	die   func(*vhostuser.Snapshot) bool // the session has ended at this one; nil: it hasn't
	dead  bool                           // nothing that it does counts any more
}

// keep is for Options.Keep.
func (k *keeper) keep(p *vhostuser.Snapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return
	}
	k.dead = k.die != nil && k.die(p)
	k.drop()
	k.bytes = p.AppendTo(nil)
	if len(k.bytes) > vhostuser.MaxSnapshot() {
		k.tb.Errorf("a snapshot of %d bytes", len(k.bytes))
	}
	for _, fd := range p.FDs() {
		var own *vhostuser.FD
		if fd != nil {
			var err error
			if own, err = fd.Dup(); err != nil {
				k.tb.Error(err)
			}
		}
		k.fds = append(k.fds, own)
	}
}

// drop closes what is held.
func (k *keeper) drop() {
	for _, fd := range k.fds {
		_ = fd.Close()
	}
	k.fds = nil
}

// take gives what is held away.
func (k *keeper) take() *vhostuser.Snapshot {
	k.tb.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	p, err := vhostuser.ParseSnapshot(k.bytes, k.fds)
	if err != nil {
		k.tb.Fatal(err)
	}
	if again := p.AppendTo(nil); !bytes.Equal(again, k.bytes) {
		k.tb.Errorf("% x is written again as % x", k.bytes, again)
	}
	if !slices.Equal(p.FDs(), k.fds) {
		k.tb.Error("the descriptors come back in another order")
	}
	k.fds = nil
	return p
}

// replaceable is a front-end whose back-end dies and is replaced.
type replaceable struct {
	*Frontend
	keeper
	dev  *Tracking
	s    *vhostuser.Session
	sock *net.UnixConn // a second descriptor of the session's socket
	back *net.UnixConn // the session's own
	stop func()
	done chan error
}

func newReplaceable(tb testing.TB, queues int) *replaceable {
	front, back := Pair(tb)
	r := &replaceable{Frontend: NewFrontend(tb, front), keeper: keeper{tb: tb}}
	r.dev = NewTracking(NewDevice(tb, queues))
	r.sock = second(tb, back)
	r.back = back
	s, err := vhostuser.New(back, r.dev, vhostuser.Options{Keep: r.keep})
	if err != nil {
		tb.Fatal(err)
	}
	r.run(s)
	tb.Cleanup(func() { r.kill(); r.drop(); _ = r.sock.Close() })
	return r
}

// second duplicates a socket.
func second(tb testing.TB, sock *net.UnixConn) *net.UnixConn {
	tb.Helper()
	file, err := sock.File()
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		tb.Fatal(err)
	}
	return c.(*net.UnixConn)
}

func (r *replaceable) run(s *vhostuser.Session) {
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	r.s, r.done = s, make(chan error, 1)
	go func() { r.done <- s.Run(ctx) }()
}

// kill ends the session without a word to the front-end.
func (r *replaceable) kill() {
	r.tb.Helper()
	r.stop()
	if err := <-r.done; err != nil && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, net.ErrClosed) {
		r.tb.Errorf("Run: %v", err)
	}
	r.done <- nil
}

// replace has another device go on.
func (r *replaceable) replace(change func(*vhostuser.Snapshot)) {
	r.tb.Helper()
	r.MustQuery(vhostuser.GetFeatures) // whatever was sent has been served and kept
	r.kill()
	r.revive(change)
}

// revive has another device go on after the session has ended.
func (r *replaceable) revive(change func(*vhostuser.Snapshot)) {
	r.tb.Helper()
	r.dev = NewTracking(NewDevice(r.tb, r.dev.Queues))
	p := r.take()
	if change != nil {
		change(p)
	}
	r.back = second(r.tb, r.sock)
	s, err := vhostuser.Restore(r.back, r.dev, vhostuser.Options{Keep: r.keep}, p)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.run(s)
}

func (r *replaceable) want(what string, calls ...string) {
	r.tb.Helper()
	r.MustQuery(vhostuser.GetFeatures)
	if got := r.dev.Calls(); !slices.Equal(got, calls) {
		r.tb.Errorf("%s: calls %q, want %q", what, got, calls)
	}
}

// TestFrontendDoesNotNotice: sessions follow one another at every step of a driver's life, and the
// front-end goes on.
func TestFrontendDoesNotNotice(t *testing.T) {
	t.Parallel()
	r := newReplaceable(t, 2)
	r.replace(nil)
	r.want("nothing was said")
	offered := r.Realize(2)
	r.replace(nil)
	r.want("realized")
	r.MustSend(vhostuser.SetFeatures, Word(offered&^logAll))
	r.replace(nil)
	r.want("features", "features 0x130000000")
	g := vt.NewGuest(t, vt.Span{Addr: 0, Size: mib}, vt.Span{Addr: 2 * mib, Size: mib})
	r.AddMemory(g)
	r.replace(nil)
	r.want("memory", "features 0x130000000", "memory 2")
	qs := []*Queue{NewQueue(t, g, 0, 8), NewQueue(t, g, 1, 8)}
	r.Start(qs...)
	r.replace(func(p *vhostuser.Snapshot) { p.Rings[1].Base = 7 })
	r.want("running", "features 0x130000000", "memory 2", "start 0 base 0", "start 1 base 7")
	q, ok := r.dev.Running(1)
	d := qs[1].Driver
	if !ok || q.Desc != d.Desc || q.Avail != d.Avail || q.Used != d.Used || q.Size != 8 ||
		!q.EventIdx() || !q.Indirect() || q.Kick == nil || q.Call == nil || q.Err == nil {
		t.Errorf("queue 1 is %+v", q)
	}
	if err := q.Call.Signal(); err != nil {
		t.Error(err)
	}
	fds := []unix.PollFd{{Fd: int32(qs[1].Call), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 5000); n != 1 {
		t.Fatalf("no interrupt: %v", err)
	}
	wantBytes(t, qs[1].Call, "01 00 00 00 00 00 00 00")
	if err := r.s.ConfigChanged(); err != nil {
		t.Errorf("the channel: %v", err)
	}
	r.dev.Consume(1, 3)
	r.Stop(qs...)
	if qs[0].Base != 0 || qs[1].Base != 10 {
		t.Errorf("bases %d and %d, want 0 and 10", qs[0].Base, qs[1].Base)
	}
	r.replace(nil)
	r.want("stopped", "features 0x130000000", "memory 2")
	r.Start(qs...)
	r.want("again", "start 0 base 0", "start 1 base 10", "call 0 true", "call 1 true")
	r.MustSend(vhostuser.RemMemReg, vhostuser.AppendRegion(Word(0), Regions(g)[1]))
	r.MustSend(vhostuser.ResetDevice, nil)
	r.replace(nil)
	r.want("reset", "memory 1")
}

// TestRecordAndLogAreKept: the files that a front-end gave reach the device after the next.
func TestRecordAndLogAreKept(t *testing.T) {
	t.Parallel()
	r := newReplaceable(t, 2)
	offered := r.Realize(2)
	r.MustSend(vhostuser.SetFeatures, Word(offered&^logAll))
	g, qs := guestWithQueues(t)
	r.AddMemory(g)
	v := vhostuser.InFlight{Queues: 2, QueueSize: 8}
	payload, fds, err := r.QueryFDs(vhostuser.GetInFlightFD, v.AppendTo(nil))
	if err != nil || len(fds) != 1 {
		t.Fatal(err)
	}
	v = DecodeInFlight(payload)
	r.MustSend(vhostuser.SetInFlightFD, v.AppendTo(nil), fds[0])
	r.Start(qs...)
	r.dev.Record(1, func(q *inflight.Queue) {
		_, _, _ = q.Recover(0)
		q.Take(5)
	})
	r.replace(nil)
	r.want("record", "features 0x130000000", "memory 1", "record true", "start 0 base 0",
		"start 1 base 0")
	r.dev.Record(1, func(q *inflight.Queue) {
		if heads, fresh, err := q.Recover(0); fresh || err != nil ||
			!slices.Equal(heads, []uint16{5}) {
			t.Errorf("recovered %v, %v, %v", heads, fresh, err)
		}
	})
	r.Stop(qs...)
	fd := logFile(t)
	r.MustSend(vhostuser.SetLogBase, vhostuser.AppendLog(nil, 4096, 0), fd)
	r.replace(nil)
	r.want("a log that isn't in force", "features 0x130000000", "memory 1", "record true")
	r.MustSend(vhostuser.SetFeatures, Word(offered|logAll))
	if !r.dev.Logs() {
		t.Error("the log isn't in force")
	}
	if r.keptMissed() {
		t.Error("the log counts as incomplete at once")
	}
	r.replace(nil)
	r.MustQuery(vhostuser.GetFeatures)
	if !r.dev.Logs() || !r.keptMissed() {
		t.Error("the log that was in force must be in force, and count as incomplete")
	}
}

// TestEndAtEachMessage: each message of a driver's life is the end of a session that has read it,
// and the next one serves it. The front-end gets all answers, each once, in their order.
func TestEndAtEachMessage(t *testing.T) {
	t.Parallel()
	r := newReplaceable(t, 2)
	ended, lives := make(chan struct{}, 1), 0
	again := false // the message has ended a session already
	r.mu.Lock()
	r.die = func(p *vhostuser.Snapshot) bool {
		if p.Pending == nil {
			again = false
			return false
		}
		if again || p.Pending.Request == vhostuser.GetQueueNum {
			return false
		}
		again = true
		_ = r.back.Close() // the front-end hears nothing more from this session
		ended <- struct{}{}
		return true
	}
	r.mu.Unlock()
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-ended:
			case <-quit:
				return
			}
			r.kill()
			r.mu.Lock()
			r.dead = false
			r.mu.Unlock()
			lives++
			r.revive(nil)
		}
	}()
	offered := r.Realize(2)
	r.MustSend(vhostuser.SetFeatures, Word(offered&^logAll))
	g, qs := guestWithQueues(t)
	r.SetMemory(g)
	v := vhostuser.InFlight{Queues: 2, QueueSize: 8}
	payload, fds, err := r.QueryFDs(vhostuser.GetInFlightFD, v.AppendTo(nil))
	if err != nil || len(fds) != 1 {
		t.Fatal(err)
	}
	r.MustSend(vhostuser.SetInFlightFD, payload, fds[0])
	extra := vt.NewGuest(t, vt.Span{Addr: 4 * mib, Size: mib})
	r.AddMemory(extra)
	qs[1].Base = 5
	r.Start(qs...)
	if b, err := r.Config(8); string(b) != "the conf" || err != nil {
		t.Errorf("the config space is %q, %v", b, err)
	}
	if err := r.Send(vhostuser.SetVringNum, State(0, 7)); err == nil {
		t.Error("a ring of 7 is accepted")
	}
	r.Stop(qs...)
	if qs[0].Base != 0 || qs[1].Base != 5 {
		t.Errorf("bases %d and %d, want 0 and 5", qs[0].Base, qs[1].Base)
	}
	r.Start(qs...)
	r.MustQuery(vhostuser.GetQueueNum) // which ends nobody
	close(quit)
	<-over
	if lives != 50 { // the messages above, but for GET_QUEUE_NUM
		t.Errorf("%d sessions were ended", lives)
	}
	want := []string{"features 0x130000000", "memory 2", "record true", "start 0 base 0",
		"start 1 base 5", "call 1 true"}
	if calls := r.dev.Calls(); !slices.Equal(calls, want) {
		t.Errorf("the last device heard %q, want %q", calls, want)
	}
}

// TestTransferEnds: a transfer of the device's state isn't begun again, and its descriptor is
// closed.
func TestTransferEnds(t *testing.T) {
	t.Parallel()
	r := newReplaceable(t, 1)
	offered := r.Realize(1)
	r.MustSend(vhostuser.SetFeatures, Word(offered&^logAll))
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	r.MustQuery(vhostuser.GetFeatures)
	r.kill()
	p := r.take()
	fd, err := unix.Dup(int(to.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	p.Pending = &vhostuser.Message{Request: vhostuser.SetDeviceStateFD,
		Flags:   vhostuser.FlagVersion,
		Payload: State(vhostuser.StateSave, vhostuser.StateStopped),
		FDs:     []*vhostuser.FD{vhostuser.NewFD(fd)}}
	dev := NewTracking(NewDevice(t, 1))
	s, err := vhostuser.Restore(second(t, r.sock), dev, vhostuser.Options{}, p)
	if err != nil {
		t.Fatal(err)
	}
	r.dev = dev
	r.run(s)
	if b, err := r.Reply(vhostuser.SetDeviceStateFD); err != nil || bytes.Equal(b, Word(1<<8)) {
		t.Errorf("SET_DEVICE_STATE_FD: % x, %v", b, err)
	}
	r.want("no transfer", "features 0x130000000")
	_ = to.Close()
	if n, err := from.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the pipe has %d bytes, %v", n, err)
	}
}

// keptMissed says whether the last snapshot has the log as incomplete.
func (r *replaceable) keptMissed() bool {
	r.MustQuery(vhostuser.GetFeatures)
	p := r.take()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fds = p.FDs()
	return p.LogMissed
}

// logFile is a log of dirty pages, of one page.
func logFile(tb testing.TB) int {
	tb.Helper()
	fd, err := unix.MemfdCreate("log", unix.MFD_CLOEXEC)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Ftruncate(fd, 4096); err != nil {
		tb.Fatal(err)
	}
	return fd
}

// TestSnapshotIsNotBelieved: what no session can have had is refused, and nothing is taken.
func TestSnapshotIsNotBelieved(t *testing.T) {
	t.Parallel()
	r := newReplaceable(t, 2)
	offered := r.Realize(2)
	r.MustSend(vhostuser.SetFeatures, Word(offered&^logAll))
	g, qs := guestWithQueues(t)
	r.AddMemory(g)
	r.Start(qs...)
	r.MustQuery(vhostuser.GetFeatures)
	good := r.take()
	defer good.Close()
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	dup, err := unix.Dup(int(null.Fd()))
	_ = null.Close()
	if err != nil {
		t.Fatal(err)
	}
	odd := vhostuser.NewFD(dup)
	defer func() { _ = odd.Close() }()
	for name, spoil := range map[string]func(p *vhostuser.Snapshot){
		"not offered":  func(p *vhostuser.Snapshot) { p.Features |= 1 << 50 },
		"protocol":     func(p *vhostuser.Snapshot) { p.Protocol |= 1 << 50 },
		"too few has":  func(p *vhostuser.Snapshot) { p.Rings = p.Rings[:1] },
		"2 queues":     func(p *vhostuser.Snapshot) { p.Rings = append(p.Rings, p.Rings[0]) },
		"entries":      func(p *vhostuser.Snapshot) { p.Rings[1].Size = 7 },
		"by nobody":    func(p *vhostuser.Snapshot) { p.Rings[1].HasEnabled = false },
		"not said":     func(p *vhostuser.Snapshot) { p.Rings[1].HasAddr = false },
		"of ring 0":    func(p *vhostuser.Snapshot) { p.Rings[1].Addr.Index = 0 },
		"ring flags":   func(p *vhostuser.Snapshot) { p.Rings[1].Addr.Flags = 2 },
		"no eventfd":   func(p *vhostuser.Snapshot) { p.Rings[1].Kick = odd },
		"neither":      func(p *vhostuser.Snapshot) { p.Channel = odd },
		"is no memory": func(p *vhostuser.Snapshot) { p.Memory[0].FD = odd },
		"the file has": func(p *vhostuser.Snapshot) { p.Memory[0].Size += 4096 },
		"overlap":      func(p *vhostuser.Snapshot) { p.Memory = append(p.Memory, p.Memory[0]) },
		"log: ": func(p *vhostuser.Snapshot) {
			p.Log = vhostuser.FileSpan{Size: 8, FD: odd}
		},
		"mode 020666 is": func(p *vhostuser.Snapshot) { p.LogCall = odd },
		"cover": func(p *vhostuser.Snapshot) {
			p.Log = vhostuser.FileSpan{Size: 8, FD: p.Memory[0].FD}
		},
		"record: ": func(p *vhostuser.Snapshot) { p.RecordFD = odd },
		"of 4 times 8": func(p *vhostuser.Snapshot) {
			p.RecordFD, p.Record.Queues, p.Record.QueueSize = p.Memory[0].FD, 4, 8
		},
		"message of": func(p *vhostuser.Snapshot) {
			p.Pending = &vhostuser.Message{FDs: make([]*vhostuser.FD, vhostuser.MaxFDs+1)}
		},
		"were shown": func(p *vhostuser.Snapshot) { p.Shown.Queues = 257 },
	} {
		p := *good
		p.Memory, p.Rings = slices.Clone(good.Memory), slices.Clone(good.Rings)
		spoil(&p)
		dev := NewTracking(NewDevice(t, 2))
		_, back := Pair(t)
		_, err := vhostuser.Restore(back, dev, vhostuser.Options{}, &p)
		if !errors.Is(err, vhostuser.ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(err.Error(), name) && name != "too few has" &&
			name != "of 4 times 8" && name != "not offered" {
			t.Errorf("%s: %v", name, err)
		}
		if calls := dev.Calls(); len(calls) != 0 {
			t.Errorf("%s: the device heard %q", name, calls)
		}
	}
	if slices.ContainsFunc(good.Memory, func(m vhostuser.Region) bool { return m.FD.Int() < 0 }) {
		t.Error("a snapshot that was refused has lost a descriptor")
	}
}

// TestSnapshotInBytes: only what AppendTo writes is read, and a change of any bit is another
// snapshot or none.
func TestSnapshotInBytes(t *testing.T) {
	t.Parallel()
	r := newReplaceable(t, 2)
	offered := r.Realize(2)
	r.MustSend(vhostuser.SetFeatures, Word(offered&^logAll))
	g, qs := guestWithQueues(t)
	r.AddMemory(g)
	r.Start(qs[0])
	r.MustQuery(vhostuser.GetFeatures)
	good := r.take()
	defer good.Close()
	good.Pending = &vhostuser.Message{Request: vhostuser.AddMemReg, Flags: vhostuser.FlagVersion,
		Payload: []byte("payload"), FDs: []*vhostuser.FD{good.Memory[0].FD}}
	b, fds := good.AppendTo(nil), good.FDs()
	for n := range b {
		if _, err := vhostuser.ParseSnapshot(b[:n], fds); !errors.Is(err, vhostuser.ErrSnapshot) {
			t.Fatalf("%d bytes of %d: %v", n, len(b), err)
		}
	}
	if _, err := vhostuser.ParseSnapshot(append(b, 0), fds); err == nil {
		t.Error("a byte more is read")
	}
	swapped := append([]*vhostuser.FD{nil}, fds[1:]...)
	for _, other := range [][]*vhostuser.FD{nil, fds[1:], swapped} {
		if _, err := vhostuser.ParseSnapshot(b, other); !errors.Is(err, vhostuser.ErrSnapshot) {
			t.Errorf("with %d descriptors: %v", len(other), err)
		}
	}
	refused := 0
	for i := range b {
		for j := range 8 {
			bad := slices.Clone(b)
			bad[i] ^= 1 << j
			p, err := vhostuser.ParseSnapshot(bad, fds)
			if err != nil {
				refused++
				continue
			}
			if !bytes.Equal(p.AppendTo(nil), bad) || reflect.DeepEqual(p, good) {
				t.Fatalf("bit %d of byte %d: read as %+v", j, i, p)
			}
		}
	}
	if refused < 96 {
		t.Errorf("%d changes were refused", refused)
	}
}

// TestDeviceThatRefuses: a device that doesn't take what another had ends the session, orderly.
func TestDeviceThatRefuses(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"features", "memory 1"} {
		r := newReplaceable(t, 2)
		offered := r.Realize(2)
		r.MustSend(vhostuser.SetFeatures, Word(offered&^logAll))
		g, qs := guestWithQueues(t)
		r.AddMemory(g)
		r.Start(qs...)
		r.MustQuery(vhostuser.GetFeatures)
		dev := NewDevice(t, 2)
		dev.SetFail(func(c string) error {
			if strings.HasPrefix(c, call) {
				return errors.New("not this one")
			}
			return nil
		})
		_, back := Pair(t)
		s, err := vhostuser.Restore(back, NewTracking(dev), vhostuser.Options{}, r.take())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(context.Background()); err == nil ||
			!strings.Contains(err.Error(), "resume session") {
			t.Errorf("%s: Run: %v", call, err)
		}
	}
}
