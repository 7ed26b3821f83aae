// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/wire"
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
func oneRegion(t *testing.T, n int) ([]byte, guestmem.Region) {
	t.Helper()
	mem, fd := memfd(t, n, unix.F_SEAL_SHRINK)
	return mem, guestmem.Region{GuestAddr: guestBase, Size: uint64(n), FD: fd}
}

func TestTruncation(t *testing.T) {
	for _, bytes := range []uint64{8192, 4 << 20} { // in the loop, and in goroutines
		mem, whole := oneRegion(t, 8<<20)
		_, fd := memfd(t, 8<<20, 0)
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

// TestDetach: memory comes back when no copy uses it any more, and copies that come later are
// refused.
func TestDetach(t *testing.T) {
	const n = 32 << 20
	mem, region := oneRegion(t, n)
	h := startHost(t, region)
	b := newBystander(t, h, mem)
	c := h.client()
	kept, keptMem, _ := attach(t, c, 8192)
	fill(mem, 5)
	whole := []wire.Run{{Address: guestBase, Bytes: n}}
	for range 10 {
		id, staging, _ := attach(t, c, n)
		for i := range uint64(4) {
			if err := c.Start(&moves.Move{ID: i, Staging: id, ToDevice: true,
				Runs: whole}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Detach(id); err != nil {
			t.Fatal(err)
		}
		clear(staging) // the mover writes there no more
		moved := finish(t, c, 4)
		for _, m := range moved {
			if m.Err != nil && !errors.Is(m.Err, ErrRange) {
				t.Errorf("copy %d: %v", m.ID, m.Err)
			}
		}
		if i := slices.IndexFunc(staging, func(b byte) bool { return b != 0 }); i >= 0 {
			t.Fatalf("byte %d was written after the memory had come back", i)
		}
		if err := move(t, c, &moves.Move{Staging: id, Runs: whole}); !errors.Is(err, ErrRange) {
			t.Errorf("a copy from memory that was taken back: error %v", err)
		}
	}
	if err := move(t, c,
		&moves.Move{Staging: kept, ToDevice: true,
			Runs: []wire.Run{{Address: guestBase, Bytes: 8192}}}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(keptMem, mem[:8192]) {
		t.Error("other memory of the connection: bytes differ")
	}
	b.check(t)
	if err := c.Detach(kept + 100); err == nil {
		t.Error("memory that isn't lent was given back")
	}
	b.check(t)
}

// TestAttachInTheMiddle: a part of a file, which software GPUs lend.
func TestAttachInTheMiddle(t *testing.T) {
	mem, region := oneRegion(t, 1<<20)
	c := startHost(t, region).client()
	file, fd := memfd(t, 3*startUnit, unix.F_SEAL_SHRINK)
	id, err := c.Attach(fd, startUnit, startUnit)
	if err != nil {
		t.Fatal(err)
	}
	fill(mem, 6)
	if err := move(t, c,
		&moves.Move{Staging: id, Offset: 5, ToDevice: true,
			Runs: []wire.Run{{Address: guestBase, Bytes: 1 << 20}}}); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 3*startUnit)
	copy(want[startUnit+5:], mem)
	if !bytes.Equal(file, want) {
		t.Error("bytes differ")
	}
	if _, err := c.Attach(fd, 2*startUnit, startUnit+1); err == nil {
		t.Error("more than the file has was taken")
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

func TestMemoryRemovedUnderLoad(t *testing.T) {
	const n = 4 << 20
	mem, region := oneRegion(t, n)
	extra, fd := memfd(t, n, 0)
	more := guestmem.Region{GuestAddr: 2 * guestBase, Size: n, FD: fd}
	h := startHost(t, region)
	b := newBystander(t, h, mem)
	c := h.client()
	id, _, _ := attach(t, c, n)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			for i := range uint64(4) {
				_ = c.Start(&moves.Move{ID: i, Staging: id,
					Runs: []wire.Run{{Address: 2 * guestBase, Bytes: n},
						{Address: guestBase, Bytes: 0}}})
			}
			for _, m := range finish(t, c, 4) {
				if m.Err != nil && !errors.Is(m.Err, ErrRange) {
					t.Errorf("copy: %v", m.Err)
				}
			}
		}
	}()
	for range 50 {
		h.sendMemory(handover.KindMemory, []guestmem.Region{region, more})
		h.expect(handover.KindDone)
		h.sendMemory(handover.KindMemory, []guestmem.Region{region})
		h.expect(handover.KindDone)
		// Nothing writes there from now on: the staging memory is all zeros.
		fill(extra[:64], 1)
		before := bytes.Clone(extra[:64])
		b.check(t)
		if !bytes.Equal(before, extra[:64]) {
			t.Error("memory that was removed was written")
		}
	}
	close(stop)
	wg.Wait()
}

func TestMemoryKeepsWhatStays(t *testing.T) {
	mem, region := oneRegion(t, 1<<20)
	_, fd := memfd(t, 1<<20, 0)
	m := &memory{}
	described, files := handover.Describe([]guestmem.Region{region})
	m, dropped, err := m.replaced(described, files)
	if err != nil || len(dropped) != 0 {
		t.Fatalf("first table: %v, %d dropped", err, len(dropped))
	}
	first := m.regions[0]
	described, files = handover.Describe([]guestmem.Region{region,
		{GuestAddr: 2 * guestBase, Size: 1 << 20, FD: fd}})
	m, dropped, err = m.replaced(described, files)
	if err != nil || len(dropped) != 0 || m.region(first.key) != first {
		t.Fatalf("second table: %v, %d dropped, kept %t", err, len(dropped),
			m.region(first.key) == first)
	}
	described[1].GuestAddr = guestBase + 4096
	if _, _, err = m.replaced(described, files); err == nil {
		t.Error("regions that overlap were taken")
	}
	next, dropped, err := m.replaced(nil, nil)
	if err != nil || len(dropped) != 2 || len(next.regions) != 0 {
		t.Fatalf("empty table: %v, %d dropped", err, len(dropped))
	}
	closeRegions(dropped)
	mem[0] = 1
}

// hostile is a worker that writes to the ring what it likes.
func hostile(t *testing.T, h *host, write func(r *ring)) {
	t.Helper()
	c := h.client()
	write(c.ring)
	notify(c.wake)
	deadline := time.Now().Add(patience)
	for !c.gone() {
		if time.Now().After(deadline) {
			t.Fatal("the connection is still open")
		}
		notify(c.wake)
	}
}

func TestHostileRings(t *testing.T) {
	mem, region := oneRegion(t, 1<<20)
	h := startHost(t, region)
	b := newBystander(t, h, mem)
	put := func(r *ring, at int, words ...uint32) {
		for i, w := range words {
			binary.LittleEndian.PutUint32(r.mem[offRequests+at+4*i:], w)
		}
	}
	for name, write := range map[string]func(r *ring){
		"tail beyond the ring":       func(r *ring) { r.store(offRequestTail, requestBytes+8) },
		"tail of less than a record": func(r *ring) { r.store(offRequestTail, 4) },
		"empty record":               func(r *ring) { r.store(offRequestTail, 64) },
		"record past the tail": func(r *ring) {
			put(r, 0, 128, 0)
			r.store(offRequestTail, 64)
		},
		"odd size":      func(r *ring) { put(r, 0, 36, 0); r.store(offRequestTail, 64) },
		"unknown flags": func(r *ring) { put(r, 0, 32, 4); r.store(offRequestTail, 32) },
		"too many runs": func(r *ring) {
			put(r, 0, 32, 0, 0, 0, 0, 9)
			r.store(offRequestTail, 32)
		},
		"record too large": func(r *ring) {
			put(r, 0, maxRecord+16, 0, 0, 0, 0, maxRuns+1)
			r.store(offRequestTail, maxRecord+16)
		},
		"large record of another count": func(r *ring) {
			put(r, 0, maxRecord+16, 0, 0, 0, 0, maxRuns)
			r.store(offRequestTail, maxRecord+16)
		},
		"completions not given": func(r *ring) {
			put(r, 0, 32, 0)
			r.store(offCompletionHead, 5)
			r.store(offRequestTail, 32)
		},
	} {
		t.Run(name, func(t *testing.T) {
			hostile(t, h, write)
			b.check(t)
		})
	}
}

func TestHostileMessages(t *testing.T) {
	mem, region := oneRegion(t, 1<<20)
	h := startHost(t, region)
	b := newBystander(t, h, mem)
	for name, send := range map[string]func(c *net.UnixConn) error{
		"no file": func(c *net.UnixConn) error {
			return sendMessage(c, message{kind: messageAttach, value: 4096})
		},
		"what isn't lent": func(c *net.UnixConn) error {
			return sendMessage(c, message{kind: messageDetach, number: 1})
		},
		"asks back with a file": func(c *net.UnixConn) error {
			return sendMessage(c, message{kind: messageDetach, number: 1}, 0)
		},
		"unknown kind": func(c *net.UnixConn) error { return sendMessage(c, message{kind: 77}) },
		"short":        func(c *net.UnixConn) error { _, err := c.Write([]byte{1}); return err },
		"long": func(c *net.UnixConn) error {
			_, err := c.Write(make([]byte, 400))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := h.client()
			if err := send(c.conn); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(patience); !c.gone(); {
				if time.Now().After(deadline) {
					t.Fatal("the connection is still open")
				}
			}
			b.check(t)
		})
	}
}

func TestRingIsSealed(t *testing.T) {
	_, region := oneRegion(t, 1<<20)
	c := startHost(t, region).client()
	if err := unix.Ftruncate(c.ring.fd, 0); err == nil {
		t.Error("a worker can cut the ring short")
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add(appendRecord(nil,
		&request{sequence: 1, staging: 1, toDevice: true,
			runs: []wire.Run{{Address: guestBase, Bytes: 4096}}}))
	f.Add([]byte{8, 0, 0, 0, 2, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		q, ok, err := decodeRequest(b, nil)
		if err != nil && !errors.Is(err, errProtocol) {
			t.Fatalf("error %v", err)
		}
		if err != nil || !ok {
			return
		}
		again := appendRecord(nil, &q)
		if len(again) != len(b) || !bytes.Equal(again[4:], b[4:]) {
			t.Fatalf("decoded %x, encoded %x", b, again)
		}
	})
}

// fullEngine has no room, and counts what is detached.
type fullEngine struct {
	*softEngine
	detached int
}

func (e *fullEngine) start(*job) bool { return false }
func (e *fullEngine) detach(staging)  { e.detached++ }

// TestWorkerDiesWhileItTakesMemoryBack: memory that was asked back goes, also when the copy that
// still used it had not begun.
func TestWorkerDiesWhileItTakesMemoryBack(t *testing.T) {
	_, region := oneRegion(t, 1<<20)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	e := &fullEngine{softEngine: newSoftEngine(1, -1)}
	c, err := newConn(fds[0], newQuota(4096))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{engine: e, conns: []*conn{c}, memory: memoryOf(t, []guestmem.Region{region})}
	_, fd := memfd(t, 4096, unix.F_SEAL_SHRINK)
	if err := c.attach(e, fd, 0, 4096); err != nil {
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
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	c, err := newConn(fds[0], newQuota(4096))
	if err != nil {
		t.Fatal(err)
	}
	defer c.release(nil)
	const most = 1 << 16 // answers, which no socket's buffer holds
	for range most {
		if err = c.send(message{kind: messageAnswer}); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v, want %v", err, os.ErrDeadlineExceeded)
	}
}
