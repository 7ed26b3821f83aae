// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
)

// inFile is a VM that is suspended to a file in which there was nothing.
func inFile(t *testing.T, programs ...string) (*fakeVM, *os.File) {
	t.Helper()
	v := newVM(t, programs...)
	f, err := os.Create(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	v.mustSaveTo(f, 0)
	return v, f
}

// mustSaveTo suspends the VM to a file that has so much of its memory.
func (v *fakeVM) mustSaveTo(f *os.File, unchanged uint64) {
	v.t.Helper()
	m, err := v.Save(f, false, nil, kept, silent)
	if err != nil || m.Unchanged != unchanged {
		v.t.Fatalf("%d bytes were in the file, want %d: %v", m.Unchanged, unchanged, err)
	}
}

// mustGoOn resumes the VM, whose programs have this memory then.
func (v *fakeVM) mustGoOn(f io.ReaderAt, memory ...string) {
	v.t.Helper()
	v.made = nil
	if _, err := v.Load(f, silent); err != nil {
		v.t.Fatal(err)
	}
	for i, w := range v.made {
		if w.memory != memory[i] || !w.filed {
			v.t.Errorf("%s has %q, want %q; in a file: %t", w.text, w.memory, memory[i], w.filed)
		}
	}
}

func contentOf(t *testing.T, f *os.File) []byte {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sizeOf(t *testing.T, f *os.File) int64 {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestSavedBehind: what a file has isn't written again, as often as the VM is suspended to it. A
// program that has begun since is written as a whole, and one that is gone is in it no more.
func TestSavedBehind(t *testing.T) {
	v, f := inFile(t, "a", "b", "")
	v.mustGoOn(f, "a", "b")
	v.workers[0].text, v.workers[1] = "A2", nil
	v.workers[2] = &fakeWorker{text: "new"}
	v.mustSaveTo(f, 1)
	v.mustGoOn(f, "a2", "new")
	v.workers[2].text = "New"
	v.mustSaveTo(f, 2)
	v.mustGoOn(f, "a2", "new")
	v.mustRun("0A2", "2New")
	all, err := savedvm.OpenFile(f)
	if err != nil || len(all.States) != 3 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestNotKeptBehind: what was written behind a file's content is taken away again if it isn't kept,
// or a worker fails. The VM runs on, and can be suspended to the file still.
func TestNotKeptBehind(t *testing.T) {
	v, f := inFile(t, "a", "b")
	v.mustGoOn(f, "a", "b")
	old := contentOf(t, f)
	refuse := func() error { return errNo }
	if _, err := v.Save(f, false, nil, refuse, silent); !errors.Is(err, errNo) {
		t.Fatalf("not kept: %v", err)
	}
	v.workers[1].fails = errNo
	if _, err := v.Save(f, false, nil, kept, silent); !errors.Is(err, errNo) {
		t.Fatalf("one fails: %v", err)
	}
	v.workers[1].fails = nil
	if now := contentOf(t, f); !bytes.Equal(old, now) {
		t.Fatalf("it has %d bytes, and had %d", len(now), len(old))
	}
	v.mustRun("0a", "1b")
	v.mustSaveTo(f, 2)
	v.mustGoOn(f, "a", "b")
}

// fileThatFills is a file without content, which fill leaves no room for more.
func fileThatFills(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("state", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "state")
	t.Cleanup(func() { f.Close() })
	return f
}

func fill(t *testing.T, f *os.File) {
	t.Helper()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW); err != nil {
		t.Fatal(err)
	}
}

// TestNoRoomBehind: a file with no room for more is what it was, and the VM runs on. It can go on
// from there still, and be suspended to another file.
func TestNoRoomBehind(t *testing.T) {
	v := newVM(t, "a", "b")
	f := fileThatFills(t)
	v.mustSaveTo(f, 0)
	v.mustGoOn(f, "a", "b")
	size := sizeOf(t, f)
	fill(t, f)
	_, err := v.Save(f, false, nil, kept, silent)
	if !errors.Is(err, unix.EPERM) || sizeOf(t, f) != size {
		t.Fatalf("%d bytes, not %d, %v", sizeOf(t, f), size, err)
	}
	v.mustRun("0a", "1b")
	if all, err := savedvm.OpenFile(f); err != nil || len(all.States) != 1 || all.Behind != nil {
		t.Errorf("%+v, %v", all, err)
	}
	other, err := os.Create(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	v.mustSaveTo(other, 0)
	v.mustGoOn(other, "a", "b")
}

// TestDiedBehind: what a device process has left behind a file's content, when it was killed before
// all of it was written, counts for nothing: the VM that was suspended to the file before, and put
// back to then, goes on from it.
func TestDiedBehind(t *testing.T) {
	v, f := inFile(t, "a", "b")
	was := v.InFile()
	v.mustGoOn(f, "a", "b")
	size := sizeOf(t, f)
	v.mustSaveTo(f, 2)
	now := v.InFile()
	end := sizeOf(t, f)
	for _, at := range []int64{size + 1, (size + end) / 2, end - 1} {
		if err := f.Truncate(at); err != nil {
			t.Fatal(err)
		}
		next := newVM(t)
		if err := next.suspension.TakeFile(); err != nil {
			t.Fatal(err)
		}
		next.TakeUp(now)
		if _, err := next.Load(f, silent); !errors.Is(err, errAnother) ||
			!errors.Is(err, record.ErrRecord) {
			t.Errorf("half of what the VM was suspended to: %v", err)
		}
		next.TakeUp(was)
		next.mustGoOn(f, "a", "b")
		if _, err := next.Save(f, false, nil, kept, silent); !errors.Is(err, errOther) {
			t.Errorf("half a state is in the way: %v", err)
		}
		next.mustRun("0a", "1b")
	}
}

// TestOtherFiles have content that a VM doesn't write behind: nothing is changed.
func TestOtherFiles(t *testing.T) {
	v, f := inFile(t, "a", "b")
	other := newVM(t, "c")
	mustNot := func(name string, v *fakeVM, runs ...string) {
		t.Helper()
		size := sizeOf(t, f)
		_, err := v.Save(f, false, nil, kept, silent)
		if !errors.Is(err, errOther) || sizeOf(t, f) != size {
			t.Errorf("%s: %v", name, err)
		}
		v.mustRun(runs...)
	}
	mustNot("of another VM", other, "0c")
	v.mustGoOn(f, "a", "b")
	if err := os.Chtimes(f.Name(), time.Time{}, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	mustNot("written to since", v, "0a", "1b")

	v, f = inFile(t, "a", "b")
	b := contentOf(t, f)
	v.mustGoOn(bytes.NewReader(b), "a", "b")
	mustNot("not the one that it went on from", v, "0a", "1b")
}

// TestGrown: when a file has become too long, or has too many states, it is to be written anew.
func TestGrown(t *testing.T) {
	v, f := inFile(t, "a")
	for range savedvm.MaxStates - 1 {
		v.mustGoOn(f, "a")
		v.mustSaveTo(f, 1)
	}
	v.mustGoOn(f, "a")
	size := sizeOf(t, f)
	if _, err := v.Save(f, false, nil, kept, silent); !errors.Is(err, record.ErrGrown) ||
		sizeOf(t, f) != size {
		t.Fatalf("too many states: %v", err)
	}
	v.mustRun("0a")
	for bytes, want := range map[int64]error{
		100: nil, 100 + roomBehind: nil, 101 + roomBehind: record.ErrGrown,
	} {
		b := origin{file: fileMark{bytes: bytes}, first: 100}
		if err := b.most(); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
	large := origin{file: fileMark{bytes: 2 << 40}, first: 1 << 40}
	if err := large.most(); err != nil {
		t.Errorf("a large one: %v", err)
	}
	if large.file.bytes++; large.most() == nil {
		t.Error("a large one that has become too large")
	}
}
