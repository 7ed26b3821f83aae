// SPDX-License-Identifier: Apache-2.0

package template

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

const size = 6 << 20

func newMemory(t *testing.T) *os.File {
	t.Helper()
	f, err := NewMemory(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// contents is memory with pages here and there, at its ends too, and runs that are longer than what
// is held at a time.
var contents = sync.OnceValue(func() []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < size; at += page {
		if at == 0 || at == size-page || r.IntN(5) == 0 || at > size/2 && at < size/2+3*mostRun {
			b[at+r.IntN(page)] = byte(1 + r.IntN(255))
		}
	}
	return b
})

// maker makes templates with these contents and this state.
func maker(state string, made *atomic.Int32) Maker {
	return func(memory *os.File) ([]byte, error) {
		made.Add(1)
		_, err := memory.WriteAt(contents(), 0)
		return []byte(state), err
	}
}

func wantCopy(t *testing.T, s Catalog, name, state string, made *atomic.Int32) {
	t.Helper()
	memory := newMemory(t)
	got, err := s.Copy(name, memory, size, maker(state, made))
	if err != nil || string(got) != state {
		t.Fatalf("the state is %q, %v, want %q", got, err, state)
	}
	b := make([]byte, size)
	if _, err := memory.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, contents()) {
		t.Error("the memory is another")
	}
}

func TestCopies(t *testing.T) {
	s := Catalog{filepath.Join(t.TempDir(), "new")}
	var made atomic.Int32
	for range 3 {
		wantCopy(t, s, "a", "state of a", &made)
	}
	wantCopy(t, s, "b", "", &made)
	if made.Load() != 2 {
		t.Errorf("made %d templates, want 2", made.Load())
	}
	info, err := os.Stat(s.file("a"))
	if err != nil || info.Mode() != 0o600 || info.Size() > size*3/4 {
		t.Errorf("the file is %v, %v", info, err)
	}
}

// TestMadeOnce has many ask at the same time.
func TestMadeOnce(t *testing.T) {
	s := Catalog{t.TempDir()}
	var made atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		memory := newMemory(t)
		all.Go(func() {
			if _, err := s.Copy("a", memory, size, maker("s", &made)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times", made.Load())
	}
}

func TestMakerFails(t *testing.T) {
	s := Catalog{t.TempDir()}
	failed := errors.New("no boot")
	_, err := s.Copy("a", newMemory(t), size, func(*os.File) ([]byte, error) { return nil, failed })
	if !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}
	var made atomic.Int32
	wantCopy(t, s, "a", "s", &made)
}

// TestDamaged changes a template. It may be read, but never outside of its memory; a part of it, or
// one for another size, is refused and removed.
func TestDamaged(t *testing.T) {
	var whole bytes.Buffer
	memory := newMemory(t)
	if _, err := memory.WriteAt(contents(), 0); err != nil {
		t.Fatal(err)
	}
	if err := write(&whole, []byte("state"), memory, size); err != nil {
		t.Fatal(err)
	}
	good := whole.Bytes()
	changed := func(at int, b ...byte) []byte {
		c := bytes.Clone(good)
		_ = append(c[:at], b...)
		return c
	}
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	state := len(magic) + 8
	run := state + 8 + len("state")
	for name, file := range map[string][]byte{
		"empty":           nil,
		"another magic":   changed(0, 'x'),
		"another size":    changed(len(magic), 1),
		"too much state":  changed(state, huge...),
		"a run outside":   changed(run, huge...),
		"a run too long":  changed(run+8, huge...),
		"cut in its head": good[:12],
		"cut in a run":    good[:len(good)/2],
		"without its end": good[:len(good)-1],
	} {
		t.Run(name, func(t *testing.T) {
			s := Catalog{t.TempDir()}
			if err := os.WriteFile(s.file("a"), file, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := s.Copy("a", newMemory(t), size, nil)
			if !errors.Is(err, errDamaged) {
				t.Errorf("the error is %v", err)
			}
			if _, err := os.Stat(s.file("a")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it is there still: %v", err)
			}
		})
	}
}

// TestKept makes more templates than are kept, and uses the first one from time to time.
func TestKept(t *testing.T) {
	s := Catalog{t.TempDir()}
	left := filepath.Join(s.Dir, "new-by-one-who-died")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var made atomic.Int32
	for i := range most + 2 {
		wantCopy(t, s, fmt.Sprint("t", i), "s", &made)
		old := time.Now().Add(time.Duration(i-100) * time.Minute)
		if err := os.Chtimes(s.file(fmt.Sprint("t", i)), old, old); err != nil {
			t.Fatal(err)
		}
		wantCopy(t, s, "t0", "s", &made)
	}
	if made.Load() != most+2 {
		t.Errorf("made %d templates, want %d", made.Load(), most+2)
	}
	names, err := filepath.Glob(s.file("t*"))
	if err != nil || len(names) != most {
		t.Errorf("%v are kept, %v, want %d", names, err, most)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a process left is there still: %v", err)
	}
}

func TestNames(t *testing.T) {
	seen := map[string][]string{}
	for _, things := range [][]string{{}, {""}, {"a"}, {"a", ""}, {"a", "b"}, {"ab"}, {"b", "a"},
		{"a\n1 b"}} {
		name := Name(things...)
		if same := seen[name]; same != nil || name != Name(things...) {
			t.Errorf("%q and %q have one name", same, things)
		}
		seen[name] = things
	}
}

func TestNoRoom(t *testing.T) {
	s := Catalog{"/proc/nowhere"}
	var made atomic.Int32
	if _, err := s.Copy("a", newMemory(t), size, maker("s", &made)); err == nil || made.Load() > 0 {
		t.Errorf("the error is %v, after %d VMs", err, made.Load())
	}
}
