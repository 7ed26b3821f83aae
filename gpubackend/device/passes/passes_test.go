// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/passes/passestest"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

var errNo = errors.New("no")

// sink has what it took, by channel and number.
type sink struct {
	has   map[string]byte
	fails error
}

// Take implements Sink.
func (s *sink) Take(p Program, addresses []uint64, b []byte) error {
	for i, at := range addresses {
		s.has[fmt.Sprint(p.Channel, " ", (at-passestest.Base)/sectorsum.Bytes)] =
			b[i*sectorsum.Bytes+77]
	}
	return s.fails
}

// rig is a VM, and a session with it.
type rig struct {
	*Passes
	sink     sink
	session  *Session
	programs []Program
}

func newRig(t *testing.T, list ...*passestest.Worker) *rig {
	t.Helper()
	r := &rig{sink: sink{has: map[string]byte{}}}
	r.serves(list...)
	r.Passes = New(Config{Log: logrus.NewEntry(logrus.New()),
		Programs: func() []Program { return r.programs }})
	var err error
	if r.session, err = r.Begin(&r.sink, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.session.workers != nil {
			r.session.Close()
		}
	})
	return r
}

// serves makes these the VM's programs.
func (r *rig) serves(list ...*passestest.Worker) {
	r.programs = nil
	for i, w := range list {
		r.programs = append(r.programs, Program{Channel: i, Worker: w})
	}
}

// pass makes a whole pass.
func (r *rig) pass(t *testing.T) {
	t.Helper()
	if whole, err := r.session.Pass(func() bool { return true }); !whole || err != nil {
		t.Fatalf("whole: %t, %v", whole, err)
	}
}

// TestPasses: all is copied, then what has changed. Workers are told when it is over, and then
// another session may begin.
func TestPasses(t *testing.T) {
	a, b := passestest.New(1, 2, 3), passestest.New(4)
	r := newRig(t, a, b)
	r.pass(t)
	want := map[string]byte{"0 0": 1, "0 1": 2, "0 2": 3, "1 0": 4}
	if !maps.Equal(r.sink.has, want) {
		t.Errorf("copied: %v", r.sink.has)
	}
	a.Write(1, 9)
	r.sink.has = map[string]byte{}
	r.pass(t)
	if !maps.Equal(r.sink.has, map[string]byte{"0 1": 9}) {
		t.Errorf("what has changed: %v", r.sink.has)
	}
	if !r.session.Has(a) || !r.session.Has(b) || r.session.Has(passestest.New()) ||
		r.session.Has(7) {
		t.Error("it isn't known whose memory was copied")
	}
	if _, err := r.Begin(&r.sink, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	if begun, over := a.Told(); begun != 1 || over != 0 {
		t.Errorf("told to begin %d times, that it is over %d times", begun, over)
	}
	r.session.Close()
	if begun, over := a.Told(); begun != 1 || over != 1 {
		t.Errorf("told to begin %d times, that it is over %d times", begun, over)
	}
	again, err := r.Begin(&r.sink, nil)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// TestFiled: a worker whose memory the sink has from a file copies only what has changed since;
// others copy all.
func TestFiled(t *testing.T) {
	a, b, c := passestest.New(1, 2, 3), passestest.New(4, 5), passestest.New(6)
	r := newRig(t, a, b, c)
	r.session.Close()
	a.File()
	b.File()
	a.Write(1, 9)
	var err error
	r.session, err = r.Begin(&r.sink, func(w Worker) bool { return w != Worker(b) })
	if err != nil {
		t.Fatal(err)
	}
	r.pass(t)
	want := map[string]byte{"0 1": 9, "1 0": 4, "1 1": 5, "2 0": 6}
	if !maps.Equal(r.sink.has, want) {
		t.Errorf("copied: %v", r.sink.has)
	}
}

// TestStops: a pass ends before the step at which it is to.
func TestStops(t *testing.T) {
	r := newRig(t, passestest.New(1, 2, 3))
	steps := 0
	whole, err := r.session.Pass(func() bool { steps++; return steps < 3 })
	if whole || err != nil || len(r.sink.has) != 2 {
		t.Errorf("whole: %t, %v, copied: %v", whole, err, r.sink.has)
	}
	r.sink.fails = errNo
	if _, err := r.session.Pass(func() bool { return true }); !errors.Is(err, errNo) {
		t.Errorf("%v", err)
	}
}

// TestComeAndGo: a program that begins is copied, and one that has ended is forgotten.
func TestComeAndGo(t *testing.T) {
	a, b := passestest.New(1), passestest.New(2)
	r := newRig(t, a)
	r.pass(t)
	r.serves(b)
	r.pass(t)
	if r.session.Has(a) || !r.session.Has(b) || r.sink.has["0 0"] != 2 {
		t.Errorf("%t, %t, %v", r.session.Has(a), r.session.Has(b), r.sink.has)
	}
	r.session.Close()
	if _, over := a.Told(); over != 0 {
		t.Error("a worker that has ended is told something")
	}
	a.PrecopyOver() // gives back what is this test's
}

// TestWorkersThatLie: of one that says what can't be nothing counts as copied.
func TestWorkersThatLie(t *testing.T) {
	const base = passestest.Base
	for name, says := range map[string]func() ([]uint64, bool, error){
		"too many": func() ([]uint64, bool, error) {
			return make([]uint64, BufferSectors+1), false, nil
		},
		"no sector": func() ([]uint64, bool, error) { return []uint64{base + 1}, false, nil },
		"twice":     func() ([]uint64, bool, error) { return []uint64{base, base}, true, nil },
		"backwards": func() ([]uint64, bool, error) {
			return []uint64{base + sectorsum.Bytes, base}, true, nil
		},
		"the same again and again": func() ([]uint64, bool, error) {
			return []uint64{base}, false, nil
		},
		"nothing forever": func() ([]uint64, bool, error) { return nil, false, nil },
		"no answer": func() ([]uint64, bool, error) {
			return nil, false, os.ErrDeadlineExceeded
		},
	} {
		a, b := passestest.New(1), passestest.New(2)
		a.Says(says)
		r := newRig(t, a, b)
		r.pass(t)
		if r.session.Has(a) || !r.session.Has(b) {
			t.Errorf("%s: copied: %t, %t", name, r.session.Has(a), r.session.Has(b))
		}
		r.session.Close()
	}
}

// TestNotNow: one that can't copy just now does so in a later pass.
func TestNotNow(t *testing.T) {
	a := passestest.New(1)
	a.Says(func() ([]uint64, bool, error) {
		return nil, false, fmt.Errorf("a graph is captured: %w", ErrNone)
	})
	r := newRig(t, a)
	r.pass(t)
	a.Says(nil)
	r.pass(t)
	if !r.session.Has(a) || len(r.sink.has) != 1 {
		t.Errorf("copied: %t, %v", r.session.Has(a), r.sink.has)
	}
}
