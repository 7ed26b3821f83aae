// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// inAFile is a VM that is suspended to a file, and whose queues are stopped; a page that it has
// pinned; the file; and the state of the VM.
func inAFile(t *testing.T) (s *suspended, page uint64, f io.ReaderAt, state []byte) {
	t.Helper()
	s = newSuspended(t)
	s.allocate(apart)
	page = s.pin()
	f = s.saveTo()
	if m := s.dev.figures.Owner().Movable; !m.Now {
		t.Errorf("movable: %+v", m)
	}
	s.front.Stop(s.queues...)
	return s, page, f, s.saveState()
}

// TestMovedInAFile: a VM that is suspended to a file goes on from it where it was moved, again and
// again.
func TestMovedInAFile(t *testing.T) {
	s, page, f, state := inAFile(t)
	for range 3 {
		s.moveTo(Config{}, state)
		if x := s.dev.suspension.Status(); x.State != suspend.Suspended || !x.Saved {
			t.Fatalf("%+v where it was moved to", x)
		}
		s.refused(admin.Request{Resume: true}, "give it with --from", suspend.Suspended)
		s.resumeFrom(f)
		s.mustHold()
		s.mustReach(page)
		s.allocate(1 << 20)
		f = s.saveTo()
		s.front.Stop(s.queues...)
		again := s.saveState()
		s.front.Start(s.queues...) // here again, still in the file
		s.front.Stop(s.queues...)
		if state = s.saveState(); !bytes.Equal(state, again) {
			t.Fatal("its state is another one")
		}
	}
	s.front.Start(s.queues...)
	s.resumeFrom(f)
	s.mustHold()
}

// TestFromAFile: a device that was given the file goes on from it by itself, as soon as the VM is
// there, and refuses one that was suspended to another.
func TestFromAFile(t *testing.T) {
	s, page, f, state := inAFile(t)
	from, err := saving.OpenFile(f, "soft", "")
	if err != nil {
		t.Fatal(err)
	}
	other := New(Config{GPU: "soft", Settings: settingsOf(t), Log: quiet(), Spawn: &processes{},
		From: &saving.File{From: f, Sum: from.Sum + 1}})
	err = other.LoadState(bytes.NewReader(state))
	if err == nil || !strings.Contains(err.Error(), "another file") ||
		other.suspension.State() != suspend.Running {
		t.Fatalf("another file: %v, %s", err, other.suspension.State())
	}
	s.moveTo(Config{From: from}, state)
	mustCome(t, "the VM runs",
		func() bool { return s.dev.suspension.State() == suspend.Running })
	s.mustHold()
	s.mustReach(page)
	s.saveTo() // from which it doesn't go on by itself
	s.front.Stop(s.queues...)
	s.front.Start(s.queues...)
	if x := s.dev.suspension.Status(); x.State != suspend.Suspended || !x.Saved {
		t.Fatalf("%+v after it was suspended again", x)
	}
}

// TestFilesOfOthers are refused when a device is given them, with the reason.
func TestFilesOfOthers(t *testing.T) {
	_, _, f, _ := inAFile(t)
	all, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		b                []byte
		gpu, build, text string
	}{
		{all, "cuda", "", "of another GPU"}, {all, "soft", "2", "another version"},
		{all[:len(all)-1], "soft", "", "cut short"},
	} {
		if _, err := saving.OpenFile(bytes.NewReader(x.b), x.gpu, x.build); err == nil ||
			!strings.Contains(err.Error(), x.text) {
			t.Errorf("%s: %v", x.text, err)
		}
	}
}

// TestStrangeStatesInFiles: what isn't true of this VM, or is damaged, is refused, and changes
// nothing.
func TestStrangeStatesInFiles(t *testing.T) {
	s, _, f, state := inAFile(t)
	for at := 44; at < len(state); at += 7 { // behind savedstate.State
		b := bytes.Clone(state)
		b[at] ^= 1
		if err := s.dev.LoadState(bytes.NewReader(b)); err == nil {
			t.Errorf("byte %d is another: no error", at)
		}
	}
	for _, b := range [][]byte{state[:len(state)-1], append(bytes.Clone(state), 0)} {
		if err := s.dev.LoadState(bytes.NewReader(b)); err == nil {
			t.Error("another length: no error")
		}
	}
	s.front.Start(s.queues...)
	s.resumeFrom(f)
	s.mustHold()
}

// TestMovedAndEnded: a program that ends where the VM was moved to gets its chains back, though
// they were in its worker's hands elsewhere.
func TestMovedAndEnded(t *testing.T) {
	s, _, _, state := inAFile(t)
	held := len(s.dev.saving.InFile().Programs)
	if held != 1 {
		t.Fatalf("%d programs are in the file", held)
	}
	s.moveTo(Config{}, state)
	s.closeChannel(0)
	s.reap(1, 4)
	s.mustResume()
	s.program(0)
}
