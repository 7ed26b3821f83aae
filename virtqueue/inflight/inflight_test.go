// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

const testSize = 8

// region makes a region with a file that the test can write to.
func region(tb testing.TB, s Shape) (*Region, int) {
	tb.Helper()
	fd, err := Create(s)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = unix.Close(fd) })
	r, err := Open(fd, 0, s.Bytes(), s)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	return r, fd
}

// model is a device by the letter of the specification, with fields in place of words. Each step
// that it plays is one change of the record or of the used ring, and it may end after any.
type model struct {
	version, descriptors, last, used uint16
	desc                             [testSize]struct {
		inFlight bool
		next     uint16
		counter  uint64
	}
	counter uint64
	ring    uint16   // index of the used ring
	flying  []uint16 // what the driver waits for, in its order
}

// play changes the model in random steps and returns where it was cut off.
func play(rng *rand.Rand) *model {
	m := &model{version: 1, descriptors: testSize}
	m.ring = uint16(rng.IntN(math.MaxUint16))
	m.used = m.ring
	left := rng.IntN(60)
	step := func(change func()) bool {
		if left--; left < 0 {
			return false
		}
		change()
		return true
	}
	for {
		ok := false
		if n := len(m.flying); n == 0 || n < testSize && rng.IntN(2) == 0 {
			ok = m.take(rng, step)
		} else {
			ok = m.giveBack(rng, step)
		}
		if !ok {
			return m
		}
	}
}

func (m *model) take(rng *rand.Rand, step func(func()) bool) bool {
	head := uint16(rng.IntN(testSize))
	for slices.Contains(m.flying, head) {
		head = (head + 1) % testSize
	}
	d := &m.desc[head]
	return step(func() { d.counter = m.counter }) &&
		step(func() { m.counter++; d.inFlight = true; m.flying = append(m.flying, head) })
}

func (m *model) giveBack(rng *rand.Rand, step func(func()) bool) bool {
	var batch []uint16
	for _, i := range rng.Perm(len(m.flying))[:1+rng.IntN(len(m.flying))] {
		batch = append(batch, m.flying[i])
	}
	for _, head := range batch {
		if !step(func() { m.desc[head].next = m.last }) || !step(func() { m.last = head }) {
			return false
		}
	}
	if !step(func() {
		m.ring += uint16(len(batch))
		m.flying = slices.DeleteFunc(m.flying,
			func(h uint16) bool { return slices.Contains(batch, h) })
	}) {
		return false
	}
	for _, head := range batch {
		if !step(func() { m.desc[head].inFlight = false }) {
			return false
		}
	}
	return step(func() { m.used = m.ring })
}

// bytes is the record as it lies in memory.
func (m *model) bytes() []byte {
	le := binary.LittleEndian
	b := le.AppendUint64(nil, 0)
	for _, v := range []uint16{m.version, m.descriptors, m.last, m.used} {
		b = le.AppendUint16(b, v)
	}
	for _, d := range m.desc {
		state := []byte{0, 0, 0, 0, 0, 0}
		if d.inFlight {
			state[0] = 1
		}
		b = append(b, state...)
		b = le.AppendUint64(le.AppendUint16(b, d.next), d.counter)
	}
	return b
}

// TestRecoveryAfterAnyStep: whatever the step at which a device of the specification's was cut off,
// what the driver waits for is found, in its order.
func TestRecoveryAfterAnyStep(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	r, fd := region(t, Shape{1, testSize})
	flew := 0
	for i := range 20000 {
		m := play(rng)
		if _, err := unix.Pwrite(fd, m.bytes(), 0); err != nil {
			t.Fatal(err)
		}
		heads, fresh, err := r.Queue(0).Recover(m.ring)
		if err != nil || fresh || !slices.Equal(heads, m.flying) {
			t.Fatalf("run %d: %v, %v, %v, want %v", i, heads, fresh, err, m.flying)
		}
		flew += len(heads)
	}
	if flew == 0 {
		t.Error("nothing was ever in flight")
	}
}

// TestOwnRecord: what a Queue notes is found by the next one, at each of its steps too.
func TestOwnRecord(t *testing.T) {
	t.Parallel()
	r, fd := region(t, Shape{2, testSize})
	q := r.Queue(1)
	if _, fresh, err := q.Recover(65534); !fresh || err != nil {
		t.Fatalf("a region that was never used: %v, %v", fresh, err)
	}
	want := func(what string, used uint16, heads ...uint16) {
		t.Helper()
		got, fresh, err := r.Queue(1).Recover(used)
		if fresh || err != nil || !slices.Equal(got, heads) {
			t.Errorf("%s: %v, %v, %v, want %v", what, got, fresh, err, heads)
		}
	}
	for _, head := range []uint16{5, 0, 7} {
		q.Take(head)
	}
	want("taken", 65534, 5, 0, 7)
	q.Returning(0)
	want("about to be returned", 65534, 5, 0, 7)
	q.Returned(65535)
	want("returned", 65535, 5, 7)
	q.Returning(5)
	want("the driver sees it, the record doesn't", 0, 7)
	if _, fresh, err := r.Queue(0).Recover(3); !fresh || err != nil {
		t.Errorf("the other queue: %v, %v", fresh, err)
	}
	next := r.Queue(1)
	if _, _, err := next.Recover(0); err != nil {
		t.Fatal(err)
	}
	next.Take(5)
	want("taken by the next one", 0, 7, 5)
	b := make([]byte, 16)
	if _, err := unix.Pread(fd, b, int64(Shape{1, testSize}.Bytes())); err != nil {
		t.Fatal(err)
	}
	if golden := []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 8, 0, 5, 0, 0, 0}; !bytes.Equal(b, golden) {
		t.Errorf("header % x, want % x", b, golden)
	}
}

// TestHostileRecords: each is refused, or read without harm.
func TestHostileRecords(t *testing.T) {
	t.Parallel()
	r, fd := region(t, Shape{1, testSize})
	for _, tt := range []struct {
		name   string
		change func(*model, []byte)
		ok     bool
	}{
		{"as it should be", func(*model, []byte) {}, true},
		{"version 2", func(m *model, _ []byte) { m.version = 2 }, false},
		{"features", func(_ *model, b []byte) { b[3] = 1 }, false},
		{"fewer descriptors", func(m *model, _ []byte) { m.descriptors = 4 }, false},
		{"more descriptors", func(m *model, _ []byte) { m.descriptors = 65535 }, false},
		{"a batch of nine", func(m *model, _ []byte) { m.used = m.ring - 9 }, false},
		{"a batch of eight in a circle", func(m *model, _ []byte) { m.used = m.ring - 8 }, true},
		{"a used index that is ahead", func(m *model, _ []byte) { m.used = m.ring + 1 }, false},
		{"head 8", func(m *model, _ []byte) { m.used, m.last = m.ring-1, 8 }, false},
		{"next is 65535", func(m *model, _ []byte) {
			m.used, m.last, m.desc[0].next = m.ring-2, 0, 65535
		}, false},
		{"equal counters", func(m *model, _ []byte) {
			for i := range m.desc {
				m.desc[i].inFlight, m.desc[i].counter = true, math.MaxUint64
			}
		}, true},
		{"never used, full of rubbish", func(m *model, _ []byte) {
			m.version = 0
			for i := range m.desc {
				m.desc[i].inFlight, m.desc[i].next = true, 999
			}
		}, true},
	} {
		m := &model{version: 1, descriptors: testSize, used: 3, ring: 3}
		tt.change(m, make([]byte, 16))
		b := m.bytes()
		tt.change(m, b)
		if _, err := unix.Pwrite(fd, b, 0); err != nil {
			t.Fatal(err)
		}
		heads, fresh, err := r.Queue(0).Recover(m.ring)
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrRegion) {
			t.Errorf("%s: %v, want success %v", tt.name, err, tt.ok)
		}
		if fresh != (m.version == 0) || fresh && heads != nil {
			t.Errorf("%s: fresh %v with %v", tt.name, fresh, heads)
		}
	}
}

func TestShapesAndFilesAreChecked(t *testing.T) {
	t.Parallel()
	for _, s := range []Shape{{0, 8}, {257, 8}, {-1, 8}, {1, 0}, {1, 3}, {1, 65535}} {
		if _, err := Create(s); !errors.Is(err, ErrRegion) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	shape := Shape{3, 1024}
	r, fd := region(t, shape)
	if err := unix.Ftruncate(fd, 0); err == nil {
		t.Error("the file can be cut short")
	}
	n := shape.Bytes()
	if n != 3*(16+1024*16+48) {
		t.Errorf("%d bytes", n)
	}
	none := (*Region)(nil)
	if r.Queue(-1) != nil || r.Queue(3) != nil || r.Queue(2) == nil || none.Queue(0) != nil {
		t.Error("queues that there are")
	}
	pipe, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer w.Close()
	for _, tt := range []struct {
		name         string
		fd           int
		offset, size uint64
		shape        Shape
	}{
		{"too short", fd, 0, n - 1, shape},
		{"longer than the file", fd, 0, 2 * n, Shape{6, 1024}},
		{"ends after the file", fd, 4096, n, shape},
		{"offset inside a page", fd, 8, n, Shape{1, 8}},
		{"offset wraps", fd, 1<<63 - 4096, n, shape},
		{"all ones", fd, math.MaxUint64, math.MaxUint64, shape},
		{"no queues", fd, 0, n, Shape{0, 1024}},
		{"a pipe", int(pipe.Fd()), 0, n, shape},
		{"closed", -1, 0, n, shape},
	} {
		if _, err := Open(tt.fd, tt.offset, tt.size, tt.shape); !errors.Is(err, ErrRegion) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil || r.Queue(0) != nil {
		t.Errorf("closed: %v", err)
	}
}

// TestRecordThatVanishes: a file that isn't sealed is cut short while the record is in use.
func TestRecordThatVanishes(t *testing.T) {
	t.Parallel()
	shape := Shape{1, 1024}
	fd, err := unix.MemfdCreate("cut", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(shape.Bytes())); err != nil {
		t.Fatal(err)
	}
	r, err := Open(fd, 0, shape.Bytes(), shape)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	q := r.Queue(0)
	if _, _, err := q.Recover(0); err != nil || q.Lost() {
		t.Fatalf("%v, lost %v", err, q.Lost())
	}
	if err := unix.Ftruncate(fd, 0); err != nil {
		t.Fatal(err)
	}
	q.Take(1)
	q.Returning(1)
	q.Returned(1)
	if !q.Lost() {
		t.Error("nothing was lost")
	}
	if _, _, err := r.Queue(0).Recover(0); !errors.Is(err, ErrRegion) {
		t.Errorf("recover: %v", err)
	}
}

// TestNotingCostsNothing: no allocation where each request passes.
func TestNotingCostsNothing(t *testing.T) {
	r, _ := region(t, Shape{1, testSize})
	q := r.Queue(0)
	if _, _, err := q.Recover(0); err != nil {
		t.Fatal(err)
	}
	used := uint16(0)
	if n := testing.AllocsPerRun(100, func() {
		used++
		q.Take(3)
		q.Returning(3)
		q.Returned(used)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzRecover makes a record of raw bytes. What comes out names each head at most once, is noted as
// it came out, and doesn't change when it is asked for again.
func FuzzRecover(f *testing.F) {
	f.Add(make([]byte, 32), uint16(0))
	f.Add((&model{version: 1, descriptors: testSize, used: 3}).bytes(), uint16(3))
	f.Add((&model{version: 1, descriptors: testSize, used: 3}).bytes(), uint16(5))
	f.Fuzz(func(t *testing.T, raw []byte, used uint16) {
		shape := Shape{1, testSize}
		r, fd := region(t, shape)
		if _, err := unix.Pwrite(fd, raw[:min(uint64(len(raw)), shape.Bytes())], 0); err != nil {
			t.Fatal(err)
		}
		heads, _, err := r.Queue(0).Recover(used)
		if err != nil {
			return
		}
		seen := map[uint16]bool{}
		for _, h := range heads {
			if h >= testSize || seen[h] {
				t.Fatalf("heads %v", heads)
			}
			seen[h] = true
		}
		again, fresh, err := r.Queue(0).Recover(used)
		if err != nil || fresh || !slices.Equal(again, heads) {
			t.Fatalf("%v, and again %v, %v, %v", heads, again, fresh, err)
		}
	})
}
