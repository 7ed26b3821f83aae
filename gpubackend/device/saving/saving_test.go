// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// fakeVM is a VM of three channels.
type fakeVM struct {
	*Saving
	t          testing.TB
	suspension *suspend.Suspension
	known      string           // by what it is known again
	bound      uint64           // of what it may have of each GPU's memory
	resumed    []int            // channels whose programs aren't saved any more
	fails      map[string]error // of workers that begin, by their programs
	ends       map[string]bool  // programs that end while their workers begin

	mu      sync.Mutex
	workers [3]*fakeWorker
	made    []*fakeWorker
	joins   joins
}

// newVM is one whose channels have these programs; "": none.
func newVM(t testing.TB, programs ...string) *fakeVM {
	v := &fakeVM{t: t, fails: map[string]error{}}
	for i, text := range programs {
		if text != "" {
			v.workers[i] = &fakeWorker{text: text}
		}
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	v.suspension = suspend.New(suspend.Config{
		Hold: func() (list []suspend.Worker) {
			for _, s := range v.serving() {
				list = append(list, s.Worker)
			}
			return list
		},
		GoOn:  func() {},
		Terms: func() (time.Duration, uint64) { return time.Second, 0 },
		Room:  func() (uint64, error) { return 1 << 30, nil },
		Stays: func() uint64 { return 0 },
		Guard: guard, Log: logrus.NewEntry(log),
	})
	v.Saving = New(Config{
		GPU: "soft", Build: "1", Channels: len(v.workers), Suspension: v.suspension,
		Serving: v.serving, Leave: v.leave, Begin: v.begin,
		Known:   func() string { return v.known },
		Had:     func(w Worker) map[uint64]uint64 { return w.(*fakeWorker).had },
		Bound:   func() uint64 { return v.bound },
		Resumed: func(channel int) { v.resumed = append(v.resumed, channel) },
		Arrive: func(p *Program, from Source) (Worker, error) {
			return v.begin(p, from, func() bool { return true })
		},
		Run: func(part string, f func()) { go guard(part, f) },
	})
	return v
}

func guard(_ string, f func()) (done bool) {
	defer func() { _ = recover() }()
	f()
	return true
}

func (v *fakeVM) serving() (list []Served) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, w := range v.workers {
		if w != nil && !w.ended {
			list = append(list, Served{Channel: i, PID: int32(10 + i), Name: w.text, Worker: w})
		}
	}
	return list
}

func (v *fakeVM) leave(s Served, saved func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if w := v.workers[s.Channel]; w != nil && w == s.Worker {
		saved()
		v.workers[s.Channel] = nil
	}
}

func (v *fakeVM) begin(p *Program, from Source, still func() bool) (Worker, error) {
	if from.Bytes != memory && from.Bytes%sectorsum.Bytes != 0 {
		return nil, fmt.Errorf("%d bytes", from.Bytes)
	}
	w := &fakeWorker{filed: from.Filed}
	w.join = func() error { return v.joins.of(w.text, len(v.serving())) }
	if from.Image != nil {
		b, err := io.ReadAll(io.NewSectionReader(from.Image, 0, 100))
		if err != nil {
			return nil, err
		}
		w.image = string(b)
	}
	if err := w.read(from.From); err != nil {
		return nil, err
	}
	if err := v.fails[w.text]; err != nil {
		if errors.Is(err, errPanics) {
			panic(err)
		}
		return nil, err
	}
	if v.ends[w.text] {
		v.Forget(p.Channel)
	}
	if !still() {
		return nil, errGone
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.workers[p.Channel], v.made = w, append(v.made, w)
	return w, nil
}

var (
	errPanics = errors.New("panics")
	errGone   = errors.New("the program is gone")
	errNo     = errors.New("no")
)

func silent(suspend.Progress) {}
func kept() error             { return nil }

// mustSave is the file that the VM is suspended to.
func (v *fakeVM) mustSave() []byte {
	v.t.Helper()
	var f bytes.Buffer
	if _, err := v.Save(&f, false, nil, kept, silent); err != nil {
		v.t.Fatal(err)
	}
	if n := len(v.serving()); n != 0 {
		v.t.Fatalf("%d workers are left", n)
	}
	return f.Bytes()
}

// texts are the programs that run.
func (v *fakeVM) texts() (list []string) {
	for _, s := range v.serving() {
		list = append(list, fmt.Sprint(s.Channel, s.Name))
	}
	return list
}

func (v *fakeVM) mustRun(want ...string) {
	v.t.Helper()
	if got := v.texts(); !slices.Equal(got, want) {
		v.t.Fatalf("%q run, want %q", got, want)
	}
}

// saved are the channels whose programs are in the file.
func (v *fakeVM) savedChannels() (list []int) {
	for i := range v.workers {
		if v.Has(i) {
			list = append(list, i)
		}
	}
	return list
}

// TestWorkersEndTogether: no worker's end waits for another one's.
func TestWorkersEndTogether(t *testing.T) {
	v := newVM(t, "a", "b", "c")
	var begun atomic.Int32
	all := make(chan struct{})
	for _, w := range v.workers {
		w.ending = func() {
			if begun.Add(1) == int32(len(v.workers)) {
				close(all)
			}
			select {
			case <-all:
			case <-time.After(time.Minute):
				t.Error("a worker ends alone")
			}
		}
	}
	v.mustSave()
}

// TestSaveAndLoad, again and again: each channel has its own program.
func TestSaveAndLoad(t *testing.T) {
	v := newVM(t, "a", "", "c")
	for range 3 {
		old := v.workers
		f := v.mustSave()
		if got := v.savedChannels(); !slices.Equal(got, []int{0, 2}) {
			t.Fatalf("channels %v are saved", got)
		}
		if p := v.Saved(2); p.String() != "c (pid 12)" {
			t.Fatalf("%v is saved", p)
		}
		if !old[0].ended || !old[2].ended {
			t.Fatal("a worker was left to itself")
		}
		m, err := v.Load(bytes.NewReader(f), silent)
		if err != nil || m.Bytes != 2*memory {
			t.Fatalf("%+v, %v", m, err)
		}
		v.mustRun("0a", "2c")
		if got := v.savedChannels(); got != nil {
			t.Fatalf("channels %v are saved", got)
		}
	}
	if want := []int{0, 2, 0, 2, 0, 2}; !slices.Equal(v.resumed, want) {
		t.Fatalf("resumed are %v", v.resumed)
	}
}

// TestFileIsNotKept: the workers go on, whatever it fails of.
func TestFileIsNotKept(t *testing.T) {
	v := newVM(t, "a", "b")
	mustNot := func(keep func() error, want error) {
		t.Helper()
		if _, err := v.Save(io.Discard, false, nil, keep, silent); !errors.Is(err, want) {
			t.Fatalf("%v", err)
		}
		if v.savedChannels() != nil || v.suspension.State() != suspend.Running {
			t.Fatalf("%v are saved, the VM is %s", v.savedChannels(), v.suspension.State())
		}
		v.mustRun("0a", "1b")
	}
	mustNot(func() error { return errNo }, errNo)
	v.workers[1].fails = errNo
	mustNot(func() error { t.Error("kept"); return nil }, errNo)
}

// TestProgramsThatEndWhileTheyAreSaved aren't in the file for their channels: neither one whose
// worker is gone, nor one in whose channel another program begins.
func TestProgramsThatEndWhileTheyAreSaved(t *testing.T) {
	v := newVM(t, "a", "b", "c")
	var f bytes.Buffer
	other := &fakeWorker{text: "other"}
	_, err := v.Save(&f, false, nil, func() error {
		v.workers[0] = nil
		v.workers[1] = other
		return nil
	}, silent)
	if err != nil {
		t.Fatal(err)
	}
	if got := v.savedChannels(); !slices.Equal(got, []int{2}) || other.ended {
		t.Fatalf("channels %v are saved, the other program has ended: %t", got, other.ended)
	}
	if _, err := v.Load(bytes.NewReader(f.Bytes()), silent); err != nil {
		t.Fatal(err)
	}
	v.mustRun("1other", "2c")
}

// TestAllEndMeanwhile: when the process that starts workers dies, say, while the file is written or
// just as it is finished. The VM isn't suspended, and nobody says so.
func TestAllEndMeanwhile(t *testing.T) {
	v := newVM(t, "a", "b", "")
	mustNot := func(f io.Writer, keep func() error) {
		t.Helper()
		_, err := v.Save(f, false, nil, keep, silent)
		if s := v.suspension.Status(); !errors.Is(err, errAllEnded) || s.Saved ||
			s.State != suspend.Running || v.savedChannels() != nil {
			t.Fatalf("%v: %+v, channels %v are saved", err, s, v.savedChannels())
		}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, w := range v.workers[:2] {
		w.fails = fmt.Errorf("save: %w", suspend.ErrEnded)
	}
	mustNot(f, func() error { t.Error("kept"); return nil })
	v.workers[0].fails, v.workers[1].fails = nil, nil
	mustNot(io.Discard, func() error {
		v.workers[0], v.workers[1] = nil, nil
		return nil
	})
	v.workers[2] = &fakeWorker{text: "c"}
	if _, err := v.Save(io.Discard, false, nil, kept, silent); err != nil {
		t.Fatalf("the next suspend: %v", err)
	}
}

// TestBusyAreKilled: with kill, programs whose work goes on aren't in the file, and end when it is
// kept, whether others are left or not, and whether the device will be away.
func TestBusyAreKilled(t *testing.T) {
	for _, known := range []string{"", "a key"} {
		v := newVM(t, "a", "b")
		v.known = known
		a, b := v.workers[0], v.workers[1]
		a.busy = true
		if _, err := v.Save(io.Discard, false, nil, kept, silent); err == nil || a.ended {
			t.Fatalf("%v, a has ended: %t", err, a.ended)
		}
		if _, err := v.Save(io.Discard, true, nil, func() error { return errNo },
			silent); !errors.Is(err, errNo) || a.ended || b.ended {
			t.Fatalf("%v, a has ended: %t", err, a.ended)
		}
		b.busy = true
		for _, both := range []bool{false, true} {
			a.ended, b.ended, b.busy = false, false, both
			v.workers[0], v.workers[1] = a, b
			m, err := v.Save(io.Discard, true, nil, kept, silent)
			if err != nil || !a.ended || !b.ended || len(m.Killed) == 2 != both {
				t.Fatalf("%v, %+v, a has ended: %t, b: %t", err, m, a.ended, b.ended)
			}
			if got := v.savedChannels(); !slices.Equal(got, []int{1}) != both {
				t.Fatalf("channels %v are saved", got)
			}
			v = newVM(t, "", "")
			v.known = known
		}
	}
}

// TestWorkerEndsBeforeItIsSaved: the file is begun anew without the program; what can't be begun
// anew isn't kept.
func TestWorkerEndsBeforeItIsSaved(t *testing.T) {
	v := newVM(t, "a", "b", "c")
	v.workers[1].fails = fmt.Errorf("save: %w", suspend.ErrEnded)
	if _, err := v.Save(io.Discard, false, nil, kept, silent); !errors.Is(err, suspend.ErrEnded) {
		t.Fatalf("%v", err)
	}
	v.mustRun("0a", "1b", "2c")
	f, err := os.Create(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := v.Save(f, false, nil, kept, silent); err != nil {
		t.Fatal(err)
	}
	if got := v.savedChannels(); !slices.Equal(got, []int{0, 2}) {
		t.Fatalf("channels %v are saved", got)
	}
	v.workers[1] = nil
	if _, err := v.Load(f, silent); err != nil {
		t.Fatal(err)
	}
	v.mustRun("0a", "2c")
}

// TestKnownAgain: the file of a VM whose device will be away says by what it is known again, and
// which programs are in there; one that isn't in there is in the way.
func TestKnownAgain(t *testing.T) {
	v := newVM(t, "a", "", "c")
	v.known = "key"
	b := v.mustSave()
	f, err := OpenFile(bytes.NewReader(b), "soft", "1")
	if err != nil || f.VM != "key" || f.Sum != v.InFile().Sum || !v.InFile().Away {
		t.Fatalf("%+v, %v, in the file: %+v", f, err, v.InFile())
	}
	if !slices.Equal(channelsOf(f.Programs), []int{0, 2}) {
		t.Errorf("%+v", f.Programs)
	}
	if _, err := v.Load(bytes.NewReader(b), silent); err != nil {
		t.Fatal(err)
	}
	hold := v.suspension.Hold
	v.suspension.Hold = func() []suspend.Worker { // one begins when the others are drained
		list := hold()
		v.mu.Lock()
		v.workers[1] = &fakeWorker{text: "b"}
		v.mu.Unlock()
		return list
	}
	mustNot := func() error { t.Error("kept"); return nil }
	if _, err := v.Save(io.Discard, false, nil, mustNot, silent); err == nil ||
		!strings.Contains(err.Error(), "b (pid 11) begins just now") {
		t.Fatalf("%v", err)
	}
	v.mustRun("0a", "1b", "2c")
}

// channelsOf are those of programs.
func channelsOf(list []Filed) (channels []int) {
	for _, p := range list {
		channels = append(channels, p.Channel)
	}
	return channels
}

// TestFilesOfOthers are refused before anything begins.
func TestFilesOfOthers(t *testing.T) {
	v := newVM(t, "a", "b")
	old := v.mustSave()
	if _, err := v.Load(bytes.NewReader(old), silent); err != nil {
		t.Fatal(err)
	}
	v.workers[0].text = "A"
	good := v.mustSave()
	v.made = nil
	mustNot := func(b []byte, text string) {
		t.Helper()
		_, err := v.Load(bytes.NewReader(b), silent)
		if err == nil || !strings.Contains(err.Error(), text) || v.made != nil {
			t.Fatalf("%v, %d workers were made", err, len(v.made))
		}
	}
	mustNot(old, "suspended last")
	mustNot(good[:len(good)-1], "cut short")
	v.config.Build = "2"
	mustNot(good, "version")
	v.config.Build = "1"
	if _, err := v.Load(bytes.NewReader(good), silent); err != nil {
		t.Fatal(err)
	}
	v.mustRun("0A", "1b")
}
