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
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// fake is a VM that notes what it is asked.
type fake struct {
	VM
	mu    sync.Mutex // while it answers; guards what follows
	set   string
	kept  error // what keep said
	mine  error // why it may not be suspended
	state string
}

// serve has a fake answer on a socket.
func serve(t *testing.T) (*fake, string) {
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
		Stats:     func() Answer { return Answer{GPU: "soft"} },
		MayChange: func() error { return f.mine },
		Suspend: func(tell func(suspend.Progress)) (suspend.Moved, error) {
			tell(suspend.Progress{Done: 3})
			return moved, nil
		},
		Resume: func(func(suspend.Progress)) (suspend.Moved, error) {
			return suspend.Moved{}, errors.New("it runs")
		},
		SuspendTo: func(w io.Writer, keep func() error, _ func(suspend.Progress)) (
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
		Guard: func(_ string, part func()) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			part()
			return true
		},
		Log: logrus.NewEntry(log),
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
