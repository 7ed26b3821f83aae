// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device/passes/passestest"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// mustRunOn resumes the VM, whose programs have such sectors then, and run.
func (v *fakeVM) mustRunOn(f *os.File, programs ...[]byte) {
	v.t.Helper()
	v.mustHave(f, programs...)
	for i, w := range v.made {
		w.early = &earlyMemory{Worker: passestest.New(bytes.Clone(programs[i])...)}
		w.early.File()
	}
}

// running is a VM whose programs went on from a file, and run.
func running(t *testing.T, programs ...[]byte) (*fakeVM, *os.File) {
	t.Helper()
	v, f := newRunning(t, programs...)
	v.mustSaveTo(f, 0)
	v.mustRunOn(f, programs...)
	return v, f
}

// atTheStop has f called when the programs have stopped, once.
func (v *fakeVM) atTheStop(f func()) {
	hold := v.suspension.Hold
	v.suspension.Hold = func() []suspend.Worker {
		v.suspension.Hold = hold
		f()
		return hold()
	}
}

// change changes a sector of a program, and of what is known of it.
func (v *fakeVM) change(channel, sector int, known []byte) {
	known[sector] ^= 0x80
	v.workers[channel].early.Write(sector, known[sector])
}

// TestEarlyBehind: what has changed since the programs went on from a file is written behind that
// while they run, and when they stop only what has changed since then. Each program gets what it
// had when it stopped, of which some is in the state before, some was written meanwhile, and some
// then, in any order. The states before stay.
func TestEarlyBehind(t *testing.T) {
	a, b := numbers(50), numbers(20)
	v, f := running(t, a, b)
	var was []*InFile
	var had [][2][]byte
	for round := range 3 {
		was, had = append(was, nil), append(had, [2][]byte{bytes.Clone(a), bytes.Clone(b)})
		steps := 0
		v.workers[0].early.runs = func(int) {
			if steps++; steps == 1 {
				for i := range 15 {
					v.change(0, 3*i+round, a)
				}
			}
		}
		var stopped int64
		v.atTheStop(func() {
			v.change(0, 3+round, a) // was written meanwhile
			v.change(0, 4+round, a) // is in the state before
			v.change(1, 9, b)       // of a program of which nothing was written
			stopped = sizeOf(t, f)
		})
		m, err := v.Save(f, false, kept, kept, silent)
		if err != nil || m.Bytes != 70*sectorsum.Bytes || m.Early != 14*sectorsum.Bytes ||
			m.Unchanged != (70-17)*sectorsum.Bytes || m.Ran == 0 {
			t.Fatalf("round %d: %+v, %v", round, m, err)
		}
		if n := sizeOf(t, f) - stopped; n > 4*sectorsum.Bytes {
			t.Errorf("round %d: %d bytes were written while the programs stood still, and three "+
				"sectors had changed", round, n)
		}
		was[round] = v.InFile()
		v.mustRunOn(f, a, b)
	}
	for i := 1; i < len(had); i++ {
		next, _ := newRunning(t)
		if err := next.suspension.TakeFile(); err != nil {
			t.Fatal(err)
		}
		next.TakeUp(was[i-1])
		next.mustHave(f, had[i][0], had[i][1])
	}
}

// TestNothingToDoEarly: if nothing has changed, nothing is written while the programs run, and the
// file is one that can be written behind still.
func TestNothingToDoEarly(t *testing.T) {
	a := numbers(20)
	v, f := running(t, a)
	for range 2 {
		before := sizeOf(t, f)
		v.atTheStop(func() {
			if n := sizeOf(t, f); n != before {
				t.Errorf("%d bytes were written while the program ran", n-before)
			}
		})
		m, err := v.Save(f, false, kept, kept, silent)
		if err != nil || m.Early != 0 || m.Unchanged != 20*sectorsum.Bytes {
			t.Fatalf("%+v, %v", m, err)
		}
		if n := sizeOf(t, f) - before; n > sectorsum.Bytes {
			t.Errorf("%d bytes were written, and nothing has changed", n)
		}
		v.mustRunOn(f, a)
	}
}

// TestBeginsBehind: a program that has begun since is written while it runs, as a whole.
func TestBeginsBehind(t *testing.T) {
	a, b := numbers(10), numbers(30)
	v, f := running(t, a)
	v.workers[1] = &fakeWorker{text: "b", early: &earlyMemory{Worker: passestest.New(b...)}}
	m, err := v.Save(f, false, kept, kept, silent)
	if err != nil || m.Early != 30*sectorsum.Bytes || m.Unchanged != 10*sectorsum.Bytes {
		t.Fatalf("%+v, %v", m, err)
	}
	v.mustRunOn(f, a, b)
}

// TestDiedEarlyBehind: whenever the device process is killed, the VM that was suspended to the file
// before, and put back to then, goes on from it. After all is written it goes on from that.
func TestDiedEarlyBehind(t *testing.T) {
	a := numbers(8)
	v, f := newRunning(t, a)
	v.mustSaveTo(f, 0)
	was := v.InFile()
	v.mustRunOn(f, a)
	old := bytes.Clone(a)
	var left [][]byte // what the file has had
	leave := func() { left = append(left, contentOf(t, f)) }
	steps := 0
	v.workers[0].early.runs = func(int) {
		if steps++; steps == 1 {
			for i := range 6 {
				v.change(0, i, a)
			}
		}
		leave()
	}
	v.atTheStop(leave)
	keep := func() error { leave(); return nil }
	if _, err := v.Save(f, false, kept, keep, silent); err != nil {
		t.Fatal(err)
	}
	now, whole := v.InFile(), left[len(left)-1]
	for _, cut := range []int{1, 1000, 2 * sectorsum.Bytes} { // of the last state
		left = append(left, whole[:len(whole)-cut])
	}
	for i, b := range left {
		next, file := newRunning(t)
		if _, err := file.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := next.suspension.TakeFile(); err != nil {
			t.Fatal(err)
		}
		next.TakeUp(now)
		if _, err := next.Load(file, silent); err == nil != (len(b) == len(whole)) {
			t.Errorf("file %d, of %d bytes, of %d: %v", i, len(b), len(whole), err)
		} else if err == nil {
			continue
		}
		next.TakeUp(was)
		next.mustHave(file, old)
	}
	if len(left) < 10 {
		t.Errorf("the process was killed at %d moments", len(left))
	}
	v.mustRunOn(f, a)
}

// TestEarlyBehindInVain: if nobody waits any more, a worker fails, or the file isn't kept, the file
// is what it was, the programs run on, and can be suspended to it still.
func TestEarlyBehindInVain(t *testing.T) {
	a := numbers(40)
	v, f := running(t, a)
	old := contentOf(t, f)
	w := v.workers[0]
	mustNot := func(awaited, keep func() error) {
		t.Helper()
		if _, err := v.Save(f, false, awaited, keep, silent); !errors.Is(err, errNo) {
			t.Fatalf("%v", err)
		}
		if !bytes.Equal(contentOf(t, f), old) {
			t.Fatalf("the file has %d bytes, and had %d", sizeOf(t, f), len(old))
		}
		v.mustRun("0a")
	}
	for i := range 30 {
		v.change(0, i, a)
	}
	goOn := make(chan struct{})
	steps := 0
	w.early.runs = func(int) {
		if steps++; steps == 20 {
			<-goOn
		}
	}
	mustNot(func() error { close(goOn); return errNo }, kept)
	w.early.runs = nil
	mustNot(kept, func() error { return errNo })
	w.fails = errNo
	mustNot(kept, kept)
	w.fails = nil
	m, err := v.Save(f, false, kept, kept, silent)
	if err != nil || m.Early != 30*sectorsum.Bytes || m.Unchanged != 10*sectorsum.Bytes {
		t.Fatalf("%+v, %v", m, err)
	}
	v.mustRunOn(f, a)
}

// TestNoRoomEarlyBehind: a file with no room for more is what it was, and the programs have never
// stood still.
func TestNoRoomEarlyBehind(t *testing.T) {
	a := numbers(20)
	v, _ := newRunning(t, a)
	f := fileThatFills(t)
	v.mustSaveTo(f, 0)
	v.mustRunOn(f, a)
	old := contentOf(t, f)
	fill(t, f)
	v.change(0, 3, a)
	v.atTheStop(func() { t.Error("the program stood still") })
	if _, err := v.Save(f, false, kept, kept, silent); !errors.Is(err, unix.EPERM) ||
		!bytes.Equal(contentOf(t, f), old) {
		t.Errorf("%d bytes, not %d, %v", sizeOf(t, f), len(old), err)
	}
	v.mustRun("0a")
	if all, err := savedvm.OpenFile(f); err != nil || len(all.States) != 1 || all.Behind != nil {
		t.Errorf("%+v, %v", all, err)
	}
}
