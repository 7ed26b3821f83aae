// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/passes"
	"github.com/paracuda/paracuda/gpubackend/device/passes/passestest"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// earlyMemory is the memory of a program that runs while it is copied.
type earlyMemory struct {
	*passestest.Worker
	steps int
	runs  func(step int) // is called before each step; nil: the program does nothing
}

// Precopy implements passes.Worker.
func (w *fakeWorker) Precopy(buffer *os.File, filed bool) ([]uint64, bool, error) {
	e := w.early
	if buffer == nil && e.runs != nil {
		e.steps++
		e.runs(e.steps)
	}
	return e.Precopy(buffer, filed)
}

// PrecopyOver implements passes.Worker.
func (w *fakeWorker) PrecopyOver() { w.early.PrecopyOver() }

// compared is what the file has of it, and what it lacks.
func (e *earlyMemory) compared(rest savedvm.Rest) (c savedvm.Whereabouts) {
	for i := range e.Sectors() {
		at := uint64(i) * sectorsum.Bytes
		p := gpubackend.Piece{Address: passestest.Base + at, Bytes: sectorsum.Bytes}
		copied, filed, n := e.Where(i)
		switch {
		case rest == savedvm.Early && copied:
			c.Has(p, savedvm.InArea|uint64(n)*sectorsum.Bytes)
		case rest != savedvm.Nowhere && filed:
			c.Has(p, at)
		default:
			c.Lacks(p)
		}
	}
	return c
}

func (e *earlyMemory) same(rest savedvm.Rest) string {
	if rest == savedvm.Nowhere {
		return ""
	}
	return string(savedvm.EncodeRuns(e.compared(rest).Runs))
}

func (e *earlyMemory) own(rest savedvm.Rest) string {
	var b []byte
	for _, p := range e.compared(rest).Rest {
		first := (p.Address - passestest.Base) / sectorsum.Bytes
		b = append(b, content(e.Sectors()[first:][:p.Bytes/sectorsum.Bytes])...)
	}
	return string(b)
}

// content is what sectors have that are each filled with one byte.
func content(sectors []byte) (b []byte) {
	for _, x := range sectors {
		b = append(b, bytes.Repeat([]byte{x}, sectorsum.Bytes)...)
	}
	return b
}

// newRunning is a VM whose programs have such sectors, and a file.
func newRunning(t *testing.T, programs ...[]byte) (*fakeVM, *os.File) {
	t.Helper()
	v := newVM(t, "a", "b", "c")
	for i, w := range v.workers {
		if i >= len(programs) {
			v.workers[i] = nil
			continue
		}
		w.early = &earlyMemory{Worker: passestest.New(programs[i]...)}
	}
	log := logrus.New()
	v.config.Passes = passes.New(passes.Config{Log: logrus.NewEntry(log),
		Programs: func() (list []passes.Program) {
			for _, s := range v.serving() {
				w, _ := s.Worker.(*fakeWorker)
				list = append(list, passes.Program{Channel: s.Channel, Worker: w})
			}
			return list
		}})
	f, err := os.OpenFile(t.TempDir(), unix.O_TMPFILE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return v, f
}

// numbers are so many sectors, of which no two are the same.
func numbers(n int) (list []byte) {
	for i := range n {
		list = append(list, byte(i+1))
	}
	return list
}

// mustHave resumes the VM, whose programs have such sectors then.
func (v *fakeVM) mustHave(f *os.File, programs ...[]byte) {
	v.t.Helper()
	v.made = nil
	if _, err := v.Load(f, silent); err != nil {
		v.t.Fatal(err)
	}
	if len(v.made) != len(programs) {
		v.t.Fatalf("%d workers, want %d", len(v.made), len(programs))
	}
	for i, w := range v.made {
		if w.memory != string(content(programs[i])) {
			v.t.Errorf("%s has other memory, %d bytes", w.text, len(w.memory))
		}
	}
}

// TestEarly: memory is written while the programs run, and then what has changed, in one pass after
// the other until little does. Each program gets what it had when it stopped.
func TestEarly(t *testing.T) {
	a, b := numbers(130), numbers(50)
	v, f := newRunning(t, bytes.Clone(a), bytes.Clone(b))
	first, second := v.workers[0], v.workers[1]
	first.early.runs = func(step int) {
		if step == 131 { // in the second pass
			for i := range 20 {
				first.early.Write(i, 200)
				a[i] = 200
			}
		}
	}
	keep := func() error {
		if first.rest != savedvm.Early || second.rest != savedvm.Early {
			t.Errorf("what isn't written is %d and %d", first.rest, second.rest)
		}
		return nil
	}
	late := func(list []suspend.Worker) []suspend.Worker { // when they stop
		second.early.Write(7, 201)
		b[7] = 201
		return list
	}
	hold := v.suspension.Hold
	v.suspension.Hold = func() []suspend.Worker { return late(hold()) }
	m, err := v.Save(f, false, kept, keep, silent)
	if err != nil || m.Bytes != 180*sectorsum.Bytes || m.Early != 179*sectorsum.Bytes ||
		m.Unchanged != 0 || m.Ran == 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, over := first.early.Told(); over != 1 {
		t.Errorf("told %d times that all is over", over)
	}
	if size := sizeOf(t, f); size > 182*sectorsum.Bytes {
		t.Errorf("the file has %d bytes: a sector that was written again has another place", size)
	}
	v.mustHave(f, a, b)
	if size := sizeOf(t, f); size == 0 {
		t.Error("the file is gone")
	}
}

// TestChangesFaster: the programs stop when they change memory faster than it is written.
func TestChangesFaster(t *testing.T) {
	a := numbers(40)
	v, f := newRunning(t, bytes.Clone(a))
	w := v.workers[0]
	w.early.runs = func(int) {
		for i := range a {
			a[i] ^= 128
			w.early.Write(i, a[i])
		}
	}
	m, err := v.Save(f, false, kept, kept, silent)
	if err != nil || w.early.steps > 40+22 || m.Early > sectorsum.Bytes {
		t.Fatalf("%d steps, %+v, %v", w.early.steps, m, err)
	}
	v.mustHave(f, a)
}

// TestEndsMeanwhile: a program that ends while memory is written isn't in the file, nor is one that
// ends when they stop; one that begins is.
func TestEndsMeanwhile(t *testing.T) {
	a, b, c := numbers(10), numbers(20), numbers(30)
	v, f := newRunning(t, a, b, c)
	begins := v.workers[2]
	v.workers[2] = nil
	v.workers[1].early.runs = func(step int) {
		if step == 20 {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.workers[1].ended = true
			v.workers[2] = begins
		}
	}
	v.workers[0].fails = fmt.Errorf("save: %w", suspend.ErrEnded)
	if _, err := v.Save(f, false, kept, kept, silent); err != nil {
		t.Fatal(err)
	}
	if got := v.savedChannels(); !slices.Equal(got, []int{2}) {
		t.Fatalf("channels %v are saved", got)
	}
	v.mustHave(f, c)
	v.workers[1].early.PrecopyOver()
}

// TestAllEndEarly: if all programs end while memory is written, nothing is suspended.
func TestAllEndEarly(t *testing.T) {
	for _, last := range []int{1, 10} { // before anything is written, and after all is
		v, f := newRunning(t, numbers(10))
		w := v.workers[0]
		w.early.runs = func(step int) {
			if step == last {
				v.mu.Lock()
				defer v.mu.Unlock()
				w.ended = true
			}
		}
		keep := func() error { t.Error("kept"); return nil }
		if _, err := v.Save(f, false, kept, keep, silent); !errors.Is(err, errAllEnded) {
			t.Fatalf("%v", err)
		}
		if v.suspension.State() != suspend.Running || sizeOf(t, f) != 0 {
			t.Errorf("the VM is %s, %d bytes", v.suspension.State(), sizeOf(t, f))
		}
		if _, over := w.early.Told(); over == 0 {
			w.early.PrecopyOver() // gives back what is this test's
		}
	}
}

// TestNotEarly: the programs stop first where that is wanted, where memory goes elsewhere just now,
// where there is none, and where it is known that they can't be saved.
func TestNotEarly(t *testing.T) {
	for name, change := range map[string]func(v *fakeVM) (awaited func() error){
		"wanted": func(*fakeVM) func() error { return nil },
		"busy": func(v *fakeVM) func() error {
			if _, err := v.config.Passes.Begin(nil, nil); err != nil {
				t.Fatal(err)
			}
			return kept
		},
		"fixed": func(v *fakeVM) func() error {
			v.workers[0].stays = "its code stays"
			return kept
		},
		"none": func(v *fakeVM) func() error {
			v.workers[0].early.Says(func() ([]uint64, bool, error) { return nil, true, nil })
			return kept
		},
		"it hangs": func(v *fakeVM) func() error {
			v.workers[0].early.Says(func() ([]uint64, bool, error) {
				return nil, false, os.ErrDeadlineExceeded
			})
			return kept
		},
	} {
		a := numbers(3)
		v, f := newRunning(t, a)
		m, err := v.Save(f, false, change(v), kept, silent)
		if err != nil || m.Early != 0 {
			t.Fatalf("%s: %+v, %v", name, m, err)
		}
		v.mustHave(f, a)
	}
}

// TestEarlyInVain: if nobody waits any more, or the file can't be written or isn't kept, the
// programs run on, and the file is empty.
func TestEarlyInVain(t *testing.T) {
	v, f := newRunning(t, numbers(100))
	mustNot := func(f *os.File, awaited, keep func() error, want error) {
		t.Helper()
		if _, err := v.Save(f, false, awaited, keep, silent); !errors.Is(err, want) {
			t.Fatalf("%v", err)
		}
		v.mustRun("0a")
		if v.suspension.State() != suspend.Running {
			t.Fatalf("the VM is %s", v.suspension.State())
		}
	}
	goOn := make(chan struct{})
	w := v.workers[0]
	w.early.runs = func(step int) {
		if step == 50 {
			<-goOn
		}
	}
	mustNot(f, func() error { close(goOn); return errNo }, kept, errNo)
	if w.early.steps > 51 || sizeOf(t, f) != 0 {
		t.Errorf("%d steps, %d bytes", w.early.steps, sizeOf(t, f))
	}
	w.early.runs = nil
	mustNot(f, kept, func() error { return errNo }, errNo)
	if sizeOf(t, f) != 0 {
		t.Errorf("%d bytes", sizeOf(t, f))
	}
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	closed, err := os.Open(path) // for reading alone
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	mustNot(closed, kept, kept, unix.EBADF)
	if _, over := w.early.Told(); over != 3 {
		t.Errorf("told %d times that all is over", over)
	}
}
