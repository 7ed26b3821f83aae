// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// fake is a VM that notes what it is asked.
type fake struct {
	VM
	mu   sync.Mutex // while it answers; guards what follows
	set  string
	kept error // what keep said
	mine error // why it may not be suspended
	// what is known without asking workers
	movable *Movable
	state   string

	patience time.Duration // for which it was told to be ready to be away
	expected string        // what the file had that it was given
}

// serve has a fake, after changes, answer on a socket.
func serve(t *testing.T, changes ...func(*fake)) (*fake, string) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	f := &fake{}
	moved := suspend.Moved{Bytes: 5}
	f.VM = VM{
		Set: func(text string) error {
			if f.set = text; text == "bad" {
				return errors.New("bad setting")
			}
			return nil
		},
		Holds:     func(text string) string { return "at once: " + text },
		Stats:     func() Answer { return Answer{GPU: "soft", Movable: f.movable} },
		Movable:   func() error { return errors.New("its code stays") },
		MayChange: func() error { return f.mine },
		Suspend: func(tell func(suspend.Progress)) (suspend.Moved, error) {
			tell(suspend.Progress{Done: 3})
			return moved, nil
		},
		Resume: func(func(suspend.Progress)) (suspend.Moved, error) {
			return suspend.Moved{}, errors.New("it runs")
		},
		SuspendTo: func(w io.Writer, _ bool, _, keep func() error, _ func(suspend.Progress)) (
			suspend.Moved, error) {
			if _, err := io.WriteString(w, "state"); err != nil {
				return suspend.Moved{}, err
			}
			f.kept = keep()
			return moved, f.kept
		},
		ResumeFrom: func(r io.ReaderAt, _ func(suspend.Progress)) (suspend.Moved, error) {
			b := make([]byte, 5)
			_, err := r.ReadAt(b, 0)
			f.state = string(b)
			return moved, err
		},
		MayGo: func(patience time.Duration) error {
			if f.patience = patience; patience > time.Hour {
				return errors.New("that is too long")
			}
			return nil
		},
		Expect: func(file *os.File) error {
			b, err := io.ReadAll(io.NewSectionReader(file, 0, 5))
			if f.expected = string(b); f.expected == "wrong" {
				err = errors.New("not a VM's")
			}
			return err
		},
		Guard: func(name string, part func()) bool {
			if name == "a file" { // beside the one that waits for it
				part()
				return true
			}
			if name == "memory that goes ahead" { // as well
				defer func() { _ = recover() }()
				part()
				return true
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			part()
			return true
		},
		Log: logrus.NewEntry(log),
	}
	for _, change := range changes {
		change(f)
	}
	path := filepath.Join(t.TempDir(), "control")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Serve(l)
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return f, path
}

func TestRequests(t *testing.T) {
	f, path := serve(t)
	a, err := Ask(path, Request{Set: "x=1"})
	f.mu.Lock()
	set := f.set
	f.mu.Unlock()
	if err != nil || set != "x=1" || a.Holds != "at once: x=1" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := Ask(path, Request{Set: "bad"}); err == nil || err.Error() != "bad setting" {
		t.Errorf("%v", err)
	}
	if a, err := Ask(path, Request{Stats: true}); err != nil || a.GPU != "soft" {
		t.Errorf("%+v, %v", a, err)
	}
	for known, want := range map[Movable]Movable{
		{Now: true}:     {Why: "its code stays"},
		{Why: "memory"}: {Why: "memory"}, // workers aren't asked then
	} {
		f.mu.Lock()
		f.movable = &known
		f.mu.Unlock()
		a, err := Ask(path, Request{Stats: true, Movable: true})
		if err != nil || *a.Movable != want {
			t.Errorf("%+v is known: %+v, %v", known, a, err)
		}
		if a, err = Ask(path, Request{Stats: true}); err != nil || *a.Movable != known {
			t.Errorf("%+v is known, workers weren't to be asked: %+v, %v", known, a, err)
		}
	}
	var told uint64
	a, err = AskAtLength(path, Request{Suspend: true}, func(p suspend.Progress) { told = p.Done })
	if err != nil || a.Moved.Bytes != 5 || told != 3 {
		t.Errorf("%+v, %v, %d bytes were told of", a, err, told)
	}
	if _, err := Ask(path, Request{Resume: true}); err == nil || err.Error() != "it runs" {
		t.Errorf("%v", err)
	}
	f.mu.Lock()
	f.mine = errors.New("the arbiter's")
	f.mu.Unlock()
	if _, err := Ask(path, Request{Suspend: true}); err == nil || err.Error() != "the arbiter's" {
		t.Errorf("%v", err)
	}
	if _, err := Ask(filepath.Join(t.TempDir(), "none"), Request{}); err == nil {
		t.Error("nobody answered")
	}
}

// TestAway: the driver is made ready for it before anything is written, and the file that comes
// along later is read.
func TestAway(t *testing.T) {
	f, path := serve(t)
	quiet := func(suspend.Progress) {}
	file, err := os.Create(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	kept := 0
	keep := func() error { kept++; return nil }
	request := Request{Suspend: true, File: true, Away: 2 * time.Hour}
	if _, err := AskWithFile(path, request, file, keep, quiet); err == nil ||
		err.Error() != "that is too long" || kept != 0 {
		t.Errorf("%v, kept %d files", err, kept)
	}
	request.Away = time.Minute
	a, err := AskWithFile(path, request, file, keep, quiet)
	if err != nil || a.Moved.Bytes != 5 || kept != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	expect := Request{Expect: true, File: true}
	if _, err := AskWithFile(path, expect, file, nil, quiet); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	if f.patience != time.Minute || f.expected != "state" {
		t.Errorf("told %v, expects %q", f.patience, f.expected)
	}
	f.mu.Unlock()
	if _, err := file.WriteAt([]byte("wrong"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := AskWithFile(path, expect, file, nil, quiet); err == nil ||
		err.Error() != "not a VM's" {
		t.Errorf("%v", err)
	}
	if _, err := Ask(path, Request{Expect: true}); !errors.As(err, new(refusal)) {
		t.Errorf("without a file: %v", err)
	}
}

// TestPrecopy: the connection that comes along is served until it has ended, and who asks is told
// how far it is, and what it came to.
func TestPrecopy(t *testing.T) {
	_, path := serve(t, func(f *fake) {
		f.PrecopyTo = func(c *net.UnixConn, tell func(suspend.Progress)) (uint64, error) {
			tell(suspend.Progress{Done: 3, All: 4})
			b, err := io.ReadAll(c)
			if string(b) == "no" {
				err = errors.New("refused")
			}
			return uint64(len(b)), err
		}
		f.PrecopyFrom = func(*net.UnixConn, func(suspend.Progress)) (uint64, error) {
			panic("a fault")
		}
	})
	var told atomic.Uint64
	ask := func(d Direction, said string) (*Answer, error) {
		near, far, err := socket.Pair(socket.Stream)
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		go func() {
			defer near.Close()
			_, _ = io.WriteString(near, said)
			for end := time.Now().Add(time.Minute); said != "no" && told.Load() == 0 &&
				time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
		}()
		return AskToPrecopy(path, d, far,
			func(p suspend.Progress) { told.Store(p.Done + p.All) })
	}
	if a, err := ask(To, "bytes"); err != nil || a.Moved.Bytes != 5 || told.Load() != 7 {
		t.Errorf("%+v, %v, told %d", a, err, told.Load())
	}
	if _, err := ask(To, "no"); err == nil || err.Error() != "refused" {
		t.Errorf("%v", err)
	}
	if _, err := ask(From, "no"); err == nil || !strings.Contains(err.Error(), "internal fault") {
		t.Errorf("%v", err)
	}
	if _, err := ask("sideways", "no"); err == nil {
		t.Error("there is another direction")
	}
	if _, err := Ask(path, Request{Precopy: To}); err == nil {
		t.Error("there is no connection")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, err := AskToPrecopy(path, To, null, func(suspend.Progress) {}); err == nil {
		t.Error("a device is taken for a connection")
	}
}

// TestFiles: nothing is changed unless the file is kept, and only a regular one is taken.
func TestFiles(t *testing.T) {
	f, path := serve(t)
	quiet := func(suspend.Progress) {}
	if _, err := Ask(path, Request{Suspend: true, File: true}); err == nil ||
		!strings.Contains(err.Error(), "no file") {
		t.Errorf("without a file: %v", err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	request := Request{Suspend: true, File: true}
	full := errors.New("the disk is full")
	if _, err := AskWithFile(path, request, file, func() error { return full },
		quiet); !errors.Is(err, full) {
		t.Errorf("a file that can't be kept: %v", err)
	}
	if a, err := AskWithFile(path, request, file, func() error { return nil },
		quiet); err != nil || a.Moved.Bytes != 5 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := AskWithFile(path, Request{Resume: true, File: true}, file, nil,
		quiet); err != nil || a.Moved.Bytes != 5 {
		t.Errorf("%+v, %v", a, err)
	}
	f.mu.Lock()
	if f.kept != nil || f.state != "state" {
		t.Errorf("kept: %v, resumed from %q", f.kept, f.state)
	}
	f.mu.Unlock()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, err := AskWithFile(path, Request{Resume: true, File: true}, null, nil,
		quiet); err == nil || !strings.Contains(err.Error(), "regular") {
		t.Errorf("a device: %v", err)
	}
}

// TestNobodyAnswers: a device process that has ended left its socket, and where there is none no
// device process is.
func TestNobodyAnswers(t *testing.T) {
	left := filepath.Join(t.TempDir(), "left")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	for path, want := range map[string]string{left: "has ended: start it again",
		left + "-not": "give the socket of paracuda device --control"} {
		if _, err := Ask(path, Request{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
