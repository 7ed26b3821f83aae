// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// bystander is a worker that must not notice what others do.
type bystander struct {
	c     *Client
	id    uint32
	mem   []byte
	guest []byte
}

func newBystander(t *testing.T, h *host, mem []byte) *bystander {
	t.Helper()
	b := &bystander{c: h.client(), guest: mem}
	b.id, b.mem, _ = attach(t, b.c, 8192)
	return b
}

func (b *bystander) check(t *testing.T) {
	t.Helper()
	fill(b.guest[:8192], uint64(time.Now().UnixNano()))
	run := []wire.Run{{Address: guestBase, Bytes: 8192}}
	if err := move(t, b.c,
		&moves.Move{ID: 1, Staging: b.id, ToDevice: true, Runs: run}); err != nil {
		t.Fatalf("bystander: %v", err)
	}
	if !bytes.Equal(b.mem, b.guest[:8192]) {
		t.Fatal("bystander: bytes differ")
	}
}

// oneRegion is guest memory in one region.
func oneRegion(t testing.TB, n int) ([]byte, guestmem.Region) {
	t.Helper()
	mem, fd := mapped(t, n, unix.F_SEAL_SHRINK)
	return mem, guestmem.Region{GuestAddr: guestBase, Size: uint64(n), FD: fd}
}

func TestTruncation(t *testing.T) {
	for _, bytes := range []uint64{8192, 4 << 20} { // in the loop, and in goroutines
		mem, whole := oneRegion(t, 8<<20)
		_, fd := mapped(t, 8<<20, 0)
		h := startHost(t, whole, guestmem.Region{GuestAddr: 2 * guestBase, Size: 8 << 20, FD: fd})
		b := newBystander(t, h, mem)
		c := h.client()
		id, _, _ := attach(t, c, 8<<20)
		if err := unix.Ftruncate(fd, 4096); err != nil {
			t.Fatal(err)
		}
		for _, toDevice := range []bool{true, false} {
			m := &moves.Move{Staging: id, ToDevice: toDevice,
				Runs: []wire.Run{{Address: 2 * guestBase, Bytes: bytes}}}
			if err := move(t, c, m); !errors.Is(err, ErrFault) {
				t.Errorf("%d bytes of a guest cut short, to device %t: error %v", bytes, toDevice,
					err)
			}
		}
		b.check(t)
		h.stop()
	}
}

func TestWorkerDiesInTheMiddle(t *testing.T) {
	const n = 32 << 20
	mem, region := oneRegion(t, n)
	h := startHost(t, region)
	b := newBystander(t, h, mem)
	for range 20 {
		c := h.client()
		id, _, _ := attach(t, c, n)
		for i := range uint64(10) {
			if err := c.Start(&moves.Move{ID: i, Staging: id, ToDevice: i%2 == 0,
				Runs: []wire.Run{{Address: guestBase, Bytes: n}}}); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Close()
		h.sendMemory(handover.KindMemory, []guestmem.Region{region})
		h.expect(handover.KindDone)
		b.check(t) // nothing is copied for the dead any more
	}
}

func TestMoverDies(t *testing.T) {
	_, region := oneRegion(t, 1<<20)
	h := startHost(t, region)
	c := h.client()
	id, _, _ := attach(t, c, 4096)
	h.stop()
	_ = c.Start(&moves.Move{Staging: id, Runs: []wire.Run{{Address: guestBase, Bytes: 1}}})
	deadline := time.Now().Add(patience)
	for {
		_, err := c.Poll(nil)
		if errors.Is(err, ErrClosed) {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("poll: %v", err)
		}
	}
}

// fullEngine has no room, and counts what is detached.
type fullEngine struct {
	*softEngine
	detached int
}

func (e *fullEngine) start(*job) bool { return false }
func (e *fullEngine) detach(s staging) {
	e.softEngine.detach(s)
	e.detached++
}

// TestWorkerDiesWhileItTakesMemoryBack: memory that it asked back is detached, also if the copy
// that uses it has not begun.
func TestWorkerDiesWhileItTakesMemoryBack(t *testing.T) {
	_, region := oneRegion(t, 1<<20)
	far, near, err := link.New()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	e := &fullEngine{softEngine: newSoftEngine(1, -1)}
	c, err := newConn(near, newQuota(4096), vouchers.Exposure{}, &dirtylog.Switch{})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{engine: e, conns: []*conn{c}, memory: memoryOf(t, []guestmem.Region{region})}
	_, fd := mapped(t, 4096, unix.F_SEAL_SHRINK)
	if err := c.attach(e, s.memory, fd, 0, 4096); err != nil {
		t.Fatal(err)
	}
	c.begin(e, s.memory,
		&request{staging: c.next, runs: []wire.Run{{Address: guestBase, Bytes: 4096}}})
	if err := c.detach(e, c.next); err != nil || c.waiting == nil || e.detached != 0 {
		t.Fatalf("%v, waiting %v, %d detached", err, c.waiting != nil, e.detached)
	}
	c.closed = true
	s.reap()
	if e.detached != 1 || len(s.conns) != 0 {
		t.Errorf("%d detached, %d connections left", e.detached, len(s.conns))
	}
}

// TestWorkerThatReadsNothing: it loses its connection, and the loop goes on.
func TestWorkerThatReadsNothing(t *testing.T) {
	far, near, err := link.New()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	c, err := newConn(near, newQuota(4096), vouchers.Exposure{}, &dirtylog.Switch{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.release(nil)
	const most = 1 << 16 // more answers than any socket's buffer holds
	for range most {
		if err = c.send(message{kind: messageAnswer}); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v, want %v", err, os.ErrDeadlineExceeded)
	}
}

// TestFilesOfTasksThatNobodyDoes are closed, whether the loop ended before they came or after.
func TestFilesOfTasksThatNobodyDoes(t *testing.T) {
	wake, waker, err := newWake()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{engine: newSoftEngine(1, waker), memory: &memory{}, wake: wake, waker: waker,
		tasks: make(chan errand, 1), over: make(chan struct{})}
	var files [2][2]int
	for i := range files {
		if err := unix.Pipe2(files[i][:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(files[i][0])
	}
	never := func() { t.Error("the task was done") }
	if !s.do(files[0][1:], never) {
		t.Error("there is a loop still")
	}
	s.reader.Go(func() {
		<-s.over
		s.do(files[1][1:], never)
	})
	s.leave()
	for _, f := range files {
		fds := []unix.PollFd{{Fd: int32(f[0])}}
		if n, err := unix.Poll(fds, 60_000); n != 1 || fds[0].Revents&unix.POLLHUP == 0 {
			t.Errorf("a file is left open: %d, %v", n, err)
		}
	}
}
