// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/soft"
	"github.com/paracuda/paracuda/gpubackend/worker/watchdog"
	"github.com/paracuda/paracuda/internal/leaks"
)

// event is an open file.
func event(t *testing.T) int {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestConfine: a worker that is to ask says what came of its confinement, and waits for the guest's
// memory; what comes before that is kept. It keeps no listener.
func TestConfine(t *testing.T) {
	before := leaks.Descriptors(t)
	no := errors.New("no")
	for _, x := range []struct {
		name    string
		confine func(string) (int, error, error)
		files   int  // that come with the memory
		said    bool // it sends a listener
		asks    bool
	}{
		{"with a listener", func(string) (int, error, error) { return event(t), nil, nil }, 0, true,
			true},
		{"a listener that is of no use", func(string) (int, error, error) {
			return event(t), nil, nil
		}, 1, true, false},
		{"without", func(string) (int, error, error) { return -1, no, nil }, 1, false, false},
		{"not confined", nil, 1, false, false},
	} {
		device, far, err := handover.Pair()
		if err != nil {
			t.Fatal(err)
		}
		w := &Worker{}
		if w.control, err = handover.NewConn(far); err != nil {
			t.Fatal(err)
		}
		policy := &handover.Message{Kind: handover.KindPolicy}
		guest := &handover.Message{Kind: handover.KindGuest,
			Memory: []handover.Region{{Size: 4096, Piece: 4096}}}
		guest.Files.Memory = x.files
		fd := event(t)
		err = errors.Join(device.Send(policy, nil), device.Send(guest, []int{fd}[:x.files]))
		unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		c := &Config{Confine: x.confine, Control: w.control}
		m, files, err := w.confine(c, false, &handover.Message{Asks: true}, nil)
		if err != nil || m.Kind != handover.KindGuest || len(files) != x.files ||
			w.asks != x.asks || len(w.early) != 1 ||
			w.early[0].Message.Kind != handover.KindPolicy {
			t.Errorf("%s: %+v, files %v, %v; early %+v", x.name, m, files, err, w.early)
		}
		handover.CloseFiles(files)
		said, files, err := device.Receive()
		if err != nil || said.Kind != handover.KindConfined || said.Files.Listener != x.said ||
			(said.Error != "") != (x.name == "without") {
			t.Errorf("%s: it says %+v, %v", x.name, said, err)
		}
		handover.CloseFiles(files)
		_, _ = w.control.Close(), device.Close()
	}
	if n := leaks.Descriptors(t); n != before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
}

// TestConfineFails: a worker that can't be confined doesn't serve, nor one without answer.
func TestConfineFails(t *testing.T) {
	no := errors.New("no")
	device, far, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{}
	if w.control, err = handover.NewConn(far); err != nil {
		t.Fatal(err)
	}
	defer w.control.Close()
	start := &handover.Message{Kind: handover.KindStart, Asks: true}
	refuses := &Config{Control: w.control,
		Confine: func(string) (int, error, error) { return -1, nil, no }}
	if _, _, err := w.confine(refuses, false, start, nil); !errors.Is(err, no) {
		t.Errorf("not confined: %v", err)
	}
	device.Close()
	never := &Config{Control: w.control}
	if _, _, err := w.confine(never, false, start, nil); err == nil {
		t.Error("nobody is there")
	}
	// One that isn't to ask has got the memory with the start message.
	start = &handover.Message{Kind: handover.KindStart}
	if m, files, err := w.confine(never, false, start, []int{7}); m != start || len(files) != 1 ||
		err != nil {
		t.Errorf("%+v, %v, %v", m, files, err)
	}
}

// TestConfinedAhead: a worker that is started ahead of use confines itself when it is warm, before
// it says so, and not again; the start message has the memory, and says whether it asks. If it
// can't be confined it isn't warm.
func TestConfinedAhead(t *testing.T) {
	for _, asks := range []bool{true, false} {
		device, far, err := handover.Pair()
		if err != nil {
			t.Fatal(err)
		}
		control, err := handover.NewConn(far)
		if err != nil {
			t.Fatal(err)
		}
		times := 0
		c := Config{Control: control, NewDriver: newSoft,
			Confine: func(string) (int, error, error) {
				times++
				return event(t), nil, nil
			}}
		start := &handover.Message{Kind: handover.KindStart, Asks: asks}
		if err := device.Send(start, nil); err != nil {
			t.Fatal(err)
		}
		warm := &handover.Message{Kind: handover.KindWarm, Asks: true, Policy: &handover.Policy{}}
		done, m, fds, err := warmUp(c, warm, nil, newCounted(), &watchdog.Watchdog{})
		if err != nil || !done.confined || done.driver == nil || done.places == nil ||
			m.Kind != handover.KindStart {
			t.Fatalf("%+v, %+v, %v", done, m, err)
		}
		w := &Worker{control: control}
		guest, _, err := w.confine(&c, done.confined, m, fds)
		if err != nil || guest != m || w.asks != asks || times != 1 {
			t.Errorf("%+v, %v; it asks: %t; confined %d times", guest, err, w.asks, times)
		}
		for _, want := range []handover.Kind{handover.KindConfined, handover.KindReady} {
			said, files, err := device.Receive()
			if err != nil || said.Kind != want || said.Error != "" {
				t.Errorf("it says %+v, %v", said, err)
			}
			handover.CloseFiles(files)
		}
		done.driver.Close()
		_, _ = control.Close(), device.Close()
	}
}

// TestNotConfinedAhead isn't warm.
func TestNotConfinedAhead(t *testing.T) {
	no := errors.New("no")
	device, far, err := handover.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	control, err := handover.NewConn(far)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	c := Config{Control: control, NewDriver: newSoft,
		Confine: func(string) (int, error, error) { return -1, nil, no }}
	warm := &handover.Message{Kind: handover.KindWarm, Asks: true, Policy: &handover.Policy{}}
	done, _, _, err := warmUp(c, warm, nil, newCounted(), &watchdog.Watchdog{})
	if !errors.Is(err, no) {
		t.Error(err)
	}
	if done.driver != nil {
		done.driver.Close()
	}
	if said, _, err := device.Receive(); err != nil || said.Error == "" {
		t.Errorf("it says %+v, %v", said, err)
	}
}

// newSoft is a worker's NewDriver.
func newSoft(
	string, handover.Policy, *budget.Budget, *ledger.Process,
) (gpubackend.Driver, error) {
	return soft.New(soft.Options{}), nil
}
