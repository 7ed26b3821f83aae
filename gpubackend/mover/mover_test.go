// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

const (
	guestBase = 0x1_0000_0000
	patience  = time.Minute
)

// mapped makes a file of n bytes in memory, and maps it. It adds the seals unless they are 0.
func mapped(tb testing.TB, n int, seals int) ([]byte, int) {
	tb.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { unix.Close(fd) })
	if err := unix.Ftruncate(fd, int64(n)); err != nil {
		tb.Fatal(err)
	}
	if seals != 0 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			tb.Fatal(err)
		}
	}
	mem, err := unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem, fd
}

// host plays the device process.
type host struct {
	tb      testing.TB
	gpu     string
	control *handover.Conn
	ended   chan error
}

// startHost runs a soft mover for a guest with the given memory.
func startHost(tb testing.TB, regions ...guestmem.Region) *host {
	tb.Helper()
	return startMover(tb, "soft", Config{}, regions...)
}

// startMover runs a mover for a kind of GPU.
func startMover(tb testing.TB, gpu string, config Config, regions ...guestmem.Region) *host {
	tb.Helper()
	mine, its, err := handover.Pair()
	if err != nil {
		tb.Fatal(err)
	}
	control, err := handover.NewConn(its)
	if err != nil {
		tb.Fatal(err)
	}
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	h := &host{tb, gpu, mine, make(chan error, 1)}
	config.Control, config.Log, config.Spin = control, logrus.NewEntry(quiet), time.Microsecond
	go func() {
		h.ended <- Run(config)
		control.Close()
	}()
	tb.Cleanup(h.stop)
	h.sendMemory(handover.KindStart, regions)
	h.expect(handover.KindReady)
	return h
}

func (h *host) sendMemory(kind handover.Kind, regions []guestmem.Region) {
	h.tb.Helper()
	described, files := handover.Describe(regions)
	m := &handover.Message{Kind: kind, Memory: described,
		Files: handover.Files{Memory: len(files)}}
	if kind == handover.KindStart {
		m.GPU = h.gpu
	}
	if err := h.control.Send(m, files); err != nil {
		h.tb.Fatal(err)
	}
}

func (h *host) expect(kind handover.Kind) {
	h.tb.Helper()
	m, _, err := h.control.Receive()
	if err != nil {
		h.tb.Fatalf("receive: %v", err)
	}
	if m.Kind != kind || m.Error != "" {
		h.tb.Fatalf("message %q, error %q, want %q", m.Kind, m.Error, kind)
	}
}

// stop ends the mover in order.
func (h *host) stop() {
	if h.ended == nil {
		return
	}
	_ = h.control.Send(&handover.Message{Kind: handover.KindStop}, nil)
	select {
	case err := <-h.ended:
		if err != nil {
			h.tb.Errorf("mover: %v", err)
		}
	case <-time.After(patience):
		h.tb.Error("mover didn't stop")
	}
	h.control.Close()
	h.ended = nil
}

// connect joins a worker of a channel, whose driver vouches for pages, and returns its end.
func (h *host) connect(channel int, root uint64) link.Half {
	h.tb.Helper()
	near, far, err := link.New()
	if err != nil {
		h.tb.Fatal(err)
	}
	attach := &handover.Message{Kind: handover.KindAttach, Channel: channel, Vouchers: root}
	err = h.control.Send(attach, far.Put(attach))
	far.Close()
	if err != nil {
		h.tb.Fatal(err)
	}
	return near
}

// client is a worker.
func (h *host) client() *Client {
	h.tb.Helper()
	c, err := NewClient(h.connect(0, 0))
	if err != nil {
		h.tb.Fatal(err)
	}
	h.tb.Cleanup(func() { _ = c.Close() })
	return c
}

// attach lends n bytes and returns them.
func attach(tb testing.TB, c *Client, n int) (uint32, []byte, int) {
	tb.Helper()
	mem, fd := mapped(tb, n, unix.F_SEAL_SHRINK)
	id, err := c.Attach(fd, 0, uint64(n))
	if err != nil {
		tb.Fatal(err)
	}
	return id, mem, fd
}

// finish polls, sleeping in between, until n copies have ended.
func finish(tb testing.TB, c *Client, n int) []moves.Completion {
	tb.Helper()
	var moved []moves.Completion
	deadline := time.Now().Add(patience)
	for len(moved) < n {
		var err error
		if moved, err = c.Poll(moved); err != nil {
			tb.Fatalf("poll: %v", err)
		}
		if len(moved) >= n {
			break
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%d of %d copies ended", len(moved), n)
		}
		fds := []unix.PollFd{{Fd: int32(c.FD()), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds, 1000)
	}
	return moved
}

// move makes one copy and waits for it.
func move(tb testing.TB, c *Client, m *moves.Move) error {
	tb.Helper()
	if err := c.Start(m); err != nil {
		tb.Fatal(err)
	}
	moved := finish(tb, c, 1)
	if moved[0].ID != m.ID {
		tb.Fatalf("copy %d ended, want %d", moved[0].ID, m.ID)
	}
	return moved[0].Err
}

func fill(b []byte, seed uint64) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	_, _ = rand.NewChaCha8(key).Read(b)
}

// guest is guest memory in two regions of one file, adjacent in the guest's addresses but not in
// the file.
func guest(tb testing.TB, n int) (mem []byte, regions []guestmem.Region) {
	tb.Helper()
	mem, fd := mapped(tb, n, unix.F_SEAL_SHRINK)
	half := uint64(n / 2)
	return mem, []guestmem.Region{
		{GuestAddr: guestBase, Size: half, FD: fd, FileOffset: half},
		{GuestAddr: guestBase + half, Size: half, FD: fd},
	}
}

// view returns the bytes of guest memory in order of guest addresses.
func view(mem []byte, address, n uint64) (b []byte) {
	half := uint64(len(mem) / 2)
	for i := range n {
		b = append(b, mem[(address-guestBase+i+half)%(2*half)])
	}
	return b
}

func TestRandomRuns(t *testing.T) {
	const n, staged = 2 << 20, 2 << 20
	mem, regions := guest(t, n)
	c := startHost(t, regions...).client()
	id, staging, _ := attach(t, c, staged)
	r := rand.New(rand.NewPCG(5, 6))
	for _, most := range []uint64{1, 17, 4096, 100_000, 700_000} {
		fill(mem, most)
		fill(staging, most+1)
		var runs []wire.Run
		total := uint64(0)
		for range 1 + r.Uint64N(300) {
			length := 1 + r.Uint64N(most)
			if total+length > staged/2 {
				break
			}
			runs = append(runs, wire.Run{Address: guestBase + r.Uint64N(n-length), Bytes: length})
			total += length
		}
		runs = append(runs, wire.Run{Address: guestBase + n/2 - 3, Bytes: 6}) // across the regions
		total += 6
		offset := r.Uint64N(staged - total)
		expected := bytes.Clone(staging)
		at := offset
		for _, run := range runs {
			at += uint64(copy(expected[at:], view(mem, run.Address, run.Bytes)))
		}
		if err := move(t, c,
			&moves.Move{ID: most, Staging: id, Offset: offset, ToDevice: true,
				Runs: runs}); err != nil {
			t.Fatalf("runs up to %d: %v", most, err)
		}
		if !bytes.Equal(staging, expected) {
			t.Fatalf("runs up to %d: staging memory differs", most)
		}
	}
}

// TestSharedOut makes copies that several goroutines share, and compares each byte.
func TestSharedOut(t *testing.T) {
	const n = 6 << 20
	mem, regions := guest(t, n)
	for _, threads := range []int{1, 2, 3, 7} {
		c := startMover(t, "soft", Config{Threads: threads}, regions...).client()
		id, staging, _ := attach(t, c, n)
		for i, size := range []uint64{1<<20 + 1, 2<<20 + 1, 3<<20 + 8193, 4<<20 - 1, 4<<20 + 1,
			4<<20 + 4097, 5<<20 + 3} {
			fill(mem, uint64(i))
			clear(staging)
			run := []wire.Run{{Address: guestBase + 5, Bytes: size}}
			if err := move(t, c,
				&moves.Move{Staging: id, Offset: 3, ToDevice: true, Runs: run}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(staging[3:3+size], view(mem, guestBase+5, size)) ||
				staging[3+size] != 0 {
				t.Errorf("%d bytes by %d goroutines differ", size, threads)
			}
		}
	}
}

func TestFromDeviceTouchesNothingElse(t *testing.T) {
	const n = 4 << 20
	mem, regions := guest(t, n)
	c := startHost(t, regions...).client()
	id, staging, _ := attach(t, c, n)
	fill(mem, 1)
	fill(staging, 2)
	expected := bytes.Clone(mem)
	var runs []wire.Run
	at := uint64(100)
	for address := uint64(7); address+9000 < n/2; address += 9001 {
		// the file's first half
		runs = append(runs, wire.Run{Address: guestBase + n/2 + address, Bytes: 8900})
		at += uint64(copy(expected[address:], staging[at:at+8900]))
	}
	if err := move(t, c, &moves.Move{Staging: id, Offset: 100, Runs: runs}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mem, expected) {
		t.Fatal("guest memory differs")
	}
}

func TestManyRunsAndManyRequests(t *testing.T) {
	const n = 4 << 20
	mem, regions := guest(t, n)
	c := startHost(t, regions...).client()
	id, staging, _ := attach(t, c, n)
	fill(mem, 3)
	var runs []wire.Run
	for i := range uint64(3*maxRuns + 17) {
		runs = append(runs, wire.Run{Address: guestBase + (i*4099)%(n-64), Bytes: 1 + i%61})
	}
	const copies = 40 // more than the ring holds
	for i := range uint64(copies) {
		if err := c.Start(&moves.Move{ID: i, Staging: id, ToDevice: true, Runs: runs}); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[uint64]bool{}
	for _, m := range finish(t, c, copies) {
		if m.Err != nil || seen[m.ID] {
			t.Fatalf("copy %d: %v, seen %t", m.ID, m.Err, seen[m.ID])
		}
		seen[m.ID] = true
	}
	at := 0
	for _, run := range runs {
		if !bytes.Equal(staging[at:at+int(run.Bytes)], view(mem, run.Address, run.Bytes)) {
			t.Fatalf("run at %#x differs", run.Address)
		}
		at += int(run.Bytes)
	}
	if len(c.requests) != 0 || len(c.backlog) != 0 {
		t.Errorf("%d requests and %d bytes left over", len(c.requests), len(c.backlog))
	}
}

func TestBadRequests(t *testing.T) {
	const n = 1 << 20
	_, regions := guest(t, n)
	h := startHost(t, regions...)
	c := h.client()
	id, _, _ := attach(t, c, 4096)
	other, _, _ := attach(t, h.client(), 4096)
	_ = other
	for _, test := range []struct {
		name string
		move moves.Move
		want error
	}{
		{"nothing", moves.Move{Staging: id}, nil},
		{"good", moves.Move{Staging: id, Runs: []wire.Run{{Address: guestBase, Bytes: 4096}}}, nil},
		{"at the end", moves.Move{Staging: id, Offset: 4096}, nil},
		{"no such staging",
			moves.Move{Staging: id + 1, Runs: []wire.Run{{Address: guestBase, Bytes: 1}}},
			ErrRange},
		{"staging 0", moves.Move{Runs: []wire.Run{{Address: guestBase, Bytes: 1}}}, ErrRange},
		{"offset past staging", moves.Move{Staging: id, Offset: 4097}, ErrRange},
		{"staging too short",
			moves.Move{Staging: id, Offset: 1, Runs: []wire.Run{{Address: guestBase, Bytes: 4096}}},
			ErrRange},
		{"offset wraps",
			moves.Move{Staging: id, Offset: ^uint64(0),
				Runs: []wire.Run{{Address: guestBase, Bytes: 4096}}}, ErrRange},
		{"bytes wrap",
			moves.Move{Staging: id,
				Runs: []wire.Run{{Address: guestBase, Bytes: 4096},
					{Address: guestBase, Bytes: ^uint64(0)}}}, ErrRange},
		{"before memory",
			moves.Move{Staging: id, Runs: []wire.Run{{Address: guestBase - 1, Bytes: 2}}},
			ErrRange},
		{"past memory",
			moves.Move{Staging: id, Runs: []wire.Run{{Address: guestBase + n - 1, Bytes: 2}}},
			ErrRange},
		{"address wraps",
			moves.Move{Staging: id, Runs: []wire.Run{{Address: ^uint64(0), Bytes: 2}}}, ErrRange},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := move(t, c, &test.move); !errors.Is(err, test.want) ||
				(err == nil) != (test.want == nil) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}

func TestBadAttach(t *testing.T) {
	_, regions := guest(t, 1<<20)
	c := startHost(t, regions...).client()
	_, fd := mapped(t, 4096, unix.F_SEAL_SHRINK)
	for _, x := range []struct {
		what         string
		start, bytes uint64
	}{
		{"more than there is", 0, 4097}, {"nothing", 0, 0}, {"behind its end", startUnit, 4096},
		{"so much that it wraps", 1 << 43, 1<<64 - 1<<43 + 4096},
	} {
		if _, err := c.Attach(fd, x.start, x.bytes); err == nil {
			t.Errorf("%s of a file was taken", x.what)
		}
	}
	if _, err := c.Attach(fd, 0, 4096); err != nil {
		t.Fatal(err)
	}
}

// TestIdleRoundsDoNotAllocate: the loop polls for a long time, and garbage would have to be
// collected.
func TestIdleRoundsDoNotAllocate(t *testing.T) {
	s := &server{engine: newSoftEngine(1, -1), memory: &memory{}, quota: newQuota(0),
		tasks: make(chan errand, 1)}
	s.ended = s.end
	if n := testing.AllocsPerRun(100, func() { s.work() }); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}
