// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/fileat"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) {
	if os.Getenv("CHECKPOINT_WRITER") != "" {
		writeForEver()
	}
	os.Exit(leaks.Main(m))
}

func create(tb testing.TB, room uint32) *File {
	tb.Helper()
	f, err := Create(room)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	return f
}

// reopen opens a checkpoint as the next process does, and wants a state.
func reopen(tb testing.TB, f *File, want []byte) *File {
	tb.Helper()
	fd, err := unix.FcntlInt(uintptr(f.FD()), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		tb.Fatal(err)
	}
	next, state, err := Open(fd)
	if err != nil {
		_ = unix.Close(fd)
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = next.Close() })
	if !bytes.Equal(state, want) || (state == nil) != (want == nil) {
		tb.Errorf("found %q, want %q", state, want)
	}
	return next
}

func TestNextProcessFindsTheLastState(t *testing.T) {
	t.Parallel()
	f := create(t, 100)
	f = reopen(t, f, nil)
	for i := range 10 {
		state := bytes.Repeat([]byte{byte(i)}, 10*i+1)
		if err := f.Write(state); err != nil {
			t.Fatal(err)
		}
		reopen(t, f, state)
		if i%3 == 0 {
			f = reopen(t, f, state)
		}
	}
	if err := f.Write(make([]byte, 101)); !errors.Is(err, ErrRoom) {
		t.Errorf("a state that is too long: %v", err)
	}
	reopen(t, f, bytes.Repeat([]byte{9}, 91))
	if err := f.Write([]byte{}); err != nil {
		t.Fatal(err)
	}
	reopen(t, f, []byte{})
	for _, room := range []uint32{0, MaxRoom + 1} {
		if _, err := Create(room); !errors.Is(err, ErrRoom) {
			t.Errorf("room for %d: %v", room, err)
		}
	}
}

// TestTornWrite cuts a write off after each of its bytes.
func TestTornWrite(t *testing.T) {
	t.Parallel()
	f := create(t, 64)
	for _, state := range []string{"the one before", "the last that is whole"} {
		if err := f.Write([]byte(state)); err != nil {
			t.Fatal(err)
		}
	}
	slot := f.at((f.slot + 1) % slots)
	before := make([]byte, slotHeader+64)
	if err := fileat.Read(f.fd, before, slot); err != nil {
		t.Fatal(err)
	}
	next := reopen(t, f, []byte("the last that is whole"))
	if err := next.Write([]byte("this one is torn somewhere")); err != nil {
		t.Fatal(err)
	}
	after := make([]byte, len(before))
	if err := fileat.Read(f.fd, after, slot); err != nil {
		t.Fatal(err)
	}
	end := slotHeader + len("this one is torn somewhere")
	put := func(b []byte) {
		t.Helper()
		if _, err := fileat.Write(f.fd, b, slot); err != nil {
			t.Fatal(err)
		}
		reopen(t, f, []byte("the last that is whole"))
	}
	torn := bytes.Clone(before)
	for i := range 8 { // the sequence is cleared
		torn[i] = 0
		put(torn)
	}
	for i := 8; i < end; i++ { // length, checksum and state
		torn[i] = after[i]
		put(torn)
	}
	if _, err := fileat.Write(f.fd, after, slot); err != nil { // the sequence
		t.Fatal(err)
	}
	reopen(t, f, []byte("this one is torn somewhere"))
	for i := slotHeader; i < end; i++ { // as if the sequence had come before a byte of the state
		torn := bytes.Clone(after)
		torn[i] ^= 1
		put(torn)
	}
}

// TestNotACheckpoint: files of others, and contents that contradict each other.
func TestNotACheckpoint(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(f *File){
		"magic":        func(f *File) { _, _ = fileat.Write(f.fd, []byte{0}, 0) },
		"version":      func(f *File) { _, _ = fileat.Write(f.fd, []byte{2}, 8) },
		"no room":      func(f *File) { _, _ = fileat.Write(f.fd, []byte{0, 0, 0, 0}, 12) },
		"too much":     func(f *File) { _, _ = fileat.Write(f.fd, []byte{255, 255, 255, 255}, 12) },
		"other room":   func(f *File) { _, _ = fileat.Write(f.fd, []byte{0, 64}, 12) },
		"one number":   func(f *File) { f.last--; _ = f.Write([]byte("x")) },
		"no state":     func(f *File) { spoilSlots(f, 20, 'x') },
		"long states":  func(f *File) { spoilSlots(f, 11, 255) },
		"no such next": func(f *File) { spoilSlots(f, 7, 128) },
	} {
		f := create(t, 100)
		for range 2 {
			if err := f.Write([]byte("state")); err != nil {
				t.Fatal(err)
			}
		}
		spoil(f)
		if _, _, err := Open(f.FD()); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fd, err := unix.MemfdCreate("other", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	for range 2 {
		if _, _, err := Open(fd); !errors.Is(err, ErrDamaged) {
			t.Errorf("another file: %v", err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Log(err) // it is sealed by now
		}
	}
	if _, _, err := Open(-1); !errors.Is(err, ErrDamaged) {
		t.Errorf("no file: %v", err)
	}
	if err := unix.Ftruncate(create(t, 100).FD(), 0); err == nil {
		t.Error("a checkpoint can be cut short")
	}
}

// spoilSlots changes a byte of each slot.
func spoilSlots(f *File, at int64, b byte) {
	for i := range slots {
		_, _ = fileat.Write(f.fd, []byte{b}, f.at(i)+at)
	}
}

// TestKilledWriter kills a process that writes, again and again. Each state is a number, written
// all over, and longer than a page.
func TestKilledWriter(t *testing.T) {
	f := create(t, 20000)
	if err := f.Write(numbered(0)); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for round := range 20 {
		dup, err := unix.FcntlInt(uintptr(f.FD()), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(dup), "checkpoint")
		c := exec.Command(self)
		c.Env = append(os.Environ(), "CHECKPOINT_WRITER=1")
		c.ExtraFiles = []*os.File{file}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		if _, err := out.Read(make([]byte, 1)); err != nil { // it has written
			t.Error(err)
		}
		for range round * 1000 { // some time, which differs
			_ = unix.Getpid()
		}
		_ = c.Process.Kill()
		_ = c.Wait()
		n := found(t, f)
		if n <= last {
			t.Errorf("round %d: state %d after %d", round, n, last)
		}
		last = n
	}
}

// found opens a checkpoint and returns the number of its state.
func found(t *testing.T, f *File) uint64 {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(f.FD()), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	next, state, err := Open(fd)
	if err != nil {
		_ = unix.Close(fd)
		t.Fatal(err)
	}
	defer func() { _ = next.Close() }()
	n := little.Uint64(state)
	if !bytes.Equal(state, numbered(n)) {
		t.Fatalf("state %d is torn", n)
	}
	return n
}

// numbered is the state of a number.
func numbered(n uint64) []byte {
	return bytes.Repeat(little.AppendUint64(nil, n), int(1000+n%1000))
}

// writeForEver is the process that is killed.
func writeForEver() {
	f, state, err := Open(3)
	if err == nil {
		n := little.Uint64(state) + 1
		err = f.Write(numbered(n))
		for fmt.Print("."); err == nil; err = f.Write(numbered(n)) {
			n++
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// FuzzOpen: no contents make Open fail in another way than by ErrDamaged, and what it opens can be
// written.
func FuzzOpen(f *testing.F) {
	good := create(f, 32)
	_ = good.Write([]byte("one"))
	_ = good.Write([]byte("two"))
	whole := make([]byte, size(32))
	if err := fileat.Read(good.fd, whole, 0); err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte("PCUDACKP\x01\x00\x00\x00\x03"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file := create(t, 32)
		if _, err := fileat.Write(file.fd, b[:min(len(b), int(size(32)))], 0); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.FcntlInt(uintptr(file.FD()), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Fatal(err)
		}
		next, state, err := Open(fd)
		if err != nil {
			_ = unix.Close(fd)
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		defer func() { _ = next.Close() }()
		if len(state) > 32 {
			t.Fatalf("a state of %d bytes", len(state))
		}
		more := []byte("next")[:min(4, next.room)] // a room of 3 makes the same length
		if err := next.Write(more); err != nil {
			t.Fatal(err)
		}
		reopen(t, next, more)
	})
}
