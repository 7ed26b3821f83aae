// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestFileAppearsWhole: a file has no name before Keep, and nothing of it is left without Keep.
func TestFileAppearsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "vm.record")
	for _, keep := range []bool{false, true} {
		f, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Reserve(1 << 20); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		if list := names(t, dir); len(list) != 0 {
			t.Errorf("%v while it is written", list)
		}
		if !keep {
			_ = f.Close() // as the end of the process does
			continue
		}
		if err := f.Keep(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != 3 || info.Mode() != 0o600 || len(names(t, dir)) != 1 {
		t.Errorf("%v, %v, in the directory %v", info, err, names(t, dir))
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

// TestAnotherFileStays: one that was there before, one that came meanwhile, a link to nothing.
func TestAnotherFileStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vm.record")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Keep(); !errors.Is(err, os.ErrExist) {
		t.Errorf("one came meanwhile: %v", err)
	}
	if _, err := Create(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("one is there: %v", err)
	}
	if b, err := os.ReadFile(path); string(b) != "old" {
		t.Errorf("it has %q, %v", b, err)
	}
	link := path + "-link"
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(link); !errors.Is(err, os.ErrExist) {
		t.Errorf("a link to nothing: %v", err)
	}
}

// TestReplaced: the old file is there until the new one takes its name, and nothing else is left.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "vm.record")
	left := filepath.Join(dir, ".vm.record.paracuda") // by a command that was killed
	for name, text := range map[string]string{path: "old", left: "left"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Replace(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("new"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); string(b) != "old" {
		t.Errorf("it has %q before the new one is kept, %v", b, err)
	}
	if err := f.Keep(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); string(b) != "new" || len(names(t, dir)) != 1 {
		t.Errorf("it has %q, %v, in the directory %v", b, err, names(t, dir))
	}
}

// TestExtended: one command at a time appends to a file, and what the file has stays.
func TestExtended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vm.record")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Extend(path)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := Extend(path); err == nil {
		other.Close()
		t.Error("two at a time")
	}
	if _, err := f.WriteAt([]byte("new"), 3); err != nil {
		t.Fatal(err)
	}
	if err := f.Keep(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); string(b) != "oldnew" {
		t.Errorf("it has %q, %v", b, err)
	}
	if f, err = Extend(path); err != nil {
		t.Fatalf("when the other one is over: %v", err)
	}
	_ = f.Close()
}

func TestNoRoom(t *testing.T) {
	f, err := Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, bytes := range []uint64{1 << 60, math.MaxInt64, math.MaxUint64} {
		if f.Reserve(bytes) == nil {
			t.Errorf("room for %d bytes", bytes)
		}
		if f.enough(bytes) == nil {
			t.Errorf("there is room for %d bytes", bytes)
		}
	}
	if err := errors.Join(f.Reserve(0), f.Reserve(4096), f.enough(4096)); err != nil {
		t.Error(err)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	if _, err := Create(filepath.Join(dir, "no", "x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, fifo, "/dev/zero", filepath.Join(dir, "none")} {
		if f, err := Open(path); err == nil {
			f.Close()
			t.Errorf("%s is opened", path)
		}
		if f, err := Extend(path); err == nil {
			f.Close()
			t.Errorf("%s is extended", path)
		}
	}
}
