// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/inflight"
	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// TestFrontendDoesNotNotice: sessions follow one another at every step of a driver's life, and the
// front end goes on.
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

// TestRecordAndLogAreKept: the files that a front end gave reach the device after the next.
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

// stage is how far a message has come.
type stage int

const (
	unread  stage = iota // it is about to be read
	read                 // and served
	replied              // its reply is ready
)

func stageOf(p *vhostuser.Snapshot) stage {
	switch {
	case p.Pending == nil:
		return replied
	case p.Unread:
		return unread
	}
	return read
}

// TestEndAtEachMessage: each message of a driver's life is the end of a session that has come to
// some stage of it, and the next one goes on. The front end gets all answers, each once, in their
// order.
func TestEndAtEachMessage(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]stage{"unread": unread, "read": read, "replied": replied} {
		t.Run(name, func(t *testing.T) { endAtEachMessage(t, at) })
	}
}

func endAtEachMessage(t *testing.T, at stage) {
	t.Helper()
	r := newReplaceable(t, 2)
	ended, lives := make(chan struct{}, 1), 0
	again := false // the message has ended a session already
	var last vhostuser.Request
	r.mu.Lock()
	r.die = func(p *vhostuser.Snapshot) bool {
		if p.Pending != nil {
			last = p.Pending.Request
		} else if at != replied || last == vhostuser.GetInFlightFD { // its answer would be lost
			again = false
			return false
		}
		if again || stageOf(p) != at || last == vhostuser.GetQueueNum {
			return false
		}
		again = at != replied
		_ = r.back.Close() // the front end hears nothing more from this session
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
	want := 50 // the messages above, but for GET_QUEUE_NUM
	if at == replied {
		want-- // and for GET_INFLIGHT_FD
	}
	if lives != want {
		t.Errorf("%d sessions were ended, want %d", lives, want)
	}
	heard := []string{"features 0x130000000", "memory 2", "record true", "start 0 base 0",
		"start 1 base 5", "call 1 true"}
	if at == replied {
		heard = heard[:5] // with the start, it had the last call descriptor
	}
	if calls := r.dev.Calls(); !slices.Equal(calls, heard) {
		t.Errorf("the last device heard %q, want %q", calls, heard)
	}
}

// TestUnreadIsTaken: a session that has ended after it took a message from the socket, but before
// Keep was told so, leaves it to the next one; so does one whose front end has sent the next
// message since.
func TestUnreadIsTaken(t *testing.T) {
	t.Parallel()
	for _, sent := range []vhostuser.Request{0, vhostuser.GetQueueNum} {
		r := newReplaceable(t, 1)
		r.Realize(1)
		r.MustQuery(vhostuser.GetFeatures)
		r.kill()
		if sent != 0 {
			m := &vhostuser.Message{Request: sent, Flags: vhostuser.FlagVersion}
			if err := r.Write(m); err != nil {
				t.Fatal(err)
			}
		}
		r.revive(func(p *vhostuser.Snapshot) {
			p.Unread, p.Pending = true, &vhostuser.Message{Request: vhostuser.GetFeatures,
				Flags: vhostuser.FlagVersion}
		})
		if _, err := r.Reply(vhostuser.GetFeatures); err != nil {
			t.Errorf("the message is lost: %v", err)
		}
		if sent != 0 {
			if _, err := r.Reply(sent); err != nil {
				t.Errorf("the next one is lost: %v", err)
			}
		}
	}
}

// TestBadOutbox: a session that can't say whether an answer was sent ends.
func TestBadOutbox(t *testing.T) {
	t.Parallel()
	r := newReplaceable(t, 1)
	r.Realize(1)
	r.replace(func(p *vhostuser.Snapshot) {
		_ = p.Outbox.Close()
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		p.Outbox = vhostuser.NewFD(fd)
	})
	if err := <-r.done; !errors.Is(err, unix.EINVAL) {
		t.Errorf("Run = %v, want EINVAL", err)
	}
	r.done <- nil
}

// TestServed: Served is called after each message, also after one that has no answer.
func TestServed(t *testing.T) {
	t.Parallel()
	served := make(chan bool)
	r := newRig(t, 1, vhostuser.Options{Served: func() { served <- true }})
	m := &vhostuser.Message{Request: vhostuser.GetFeatures, Flags: vhostuser.FlagVersion}
	if err := r.Write(m); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reply(m.Request); err != nil {
		t.Fatal(err)
	}
	<-served
	m = &vhostuser.Message{Request: vhostuser.SetOwner, Flags: vhostuser.FlagVersion}
	if err := r.Write(m); err != nil {
		t.Fatal(err)
	}
	<-served
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
