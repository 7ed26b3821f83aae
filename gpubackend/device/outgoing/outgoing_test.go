// SPDX-License-Identifier: Apache-2.0

package outgoing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/passes"
	"github.com/paracuda/paracuda/gpubackend/device/passes/passestest"
	"github.com/paracuda/paracuda/gpubackend/precopy"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

const (
	soon = time.Minute
	base = passestest.Base
)

var header = precopy.Header{GPU: "soft", Version: "1"}

var newWorker = passestest.New

// over is how often a worker was told that nothing is copied any more.
func over(w *passestest.Worker) int {
	_, n := w.Told()
	return n
}

// rig is a VM, and the device process to which it goes.
type rig struct {
	*Outgoing
	t        *testing.T
	mu       sync.Mutex
	programs []passes.Program
	log      bytes.Buffer
	progress chan Progress
	sent     chan error
	near     net.Conn
	has      map[string]byte // what the destination has, by channel and number
	all      bool
}

func newRig(t *testing.T, list ...*passestest.Worker) *rig {
	t.Helper()
	r := &rig{t: t, progress: make(chan Progress, 1000), sent: make(chan error, 1),
		has: map[string]byte{}}
	r.serves(list...)
	log := logrus.New()
	log.SetOutput(&r.log)
	entry := logrus.NewEntry(log)
	r.Outgoing = New(Config{Header: header, Limit: soon, Log: entry,
		Passes: passes.New(passes.Config{Log: entry, Programs: func() []passes.Program {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.programs
		}})})
	return r
}

// serves makes these the VM's programs.
func (r *rig) serves(list ...*passestest.Worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.programs = nil
	for i, w := range list {
		r.programs = append(r.programs, passes.Program{Channel: i, Worker: w})
	}
}

// Put implements precopy.Store.
func (r *rig) Put(channel int, address uint64, b []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.has[fmt.Sprint(channel, " ", (address-base)/sectorsum.Bytes)] = b[77]
	return nil
}

// begin begins to send, and waits until all is there once.
func (r *rig) begin() {
	r.t.Helper()
	near, far := net.Pipe()
	r.near = far
	go func() {
		_ = precopy.Receive(far, header, soon,
			func(uint64) (precopy.Store, error) { return r, nil }, func() { r.all = true })
		_ = far.Close()
	}()
	go func() {
		_, err := r.Send(near, func(p Progress) {
			select {
			case r.progress <- p:
			default:
			}
		})
		_ = near.Close()
		r.sent <- err
	}()
	for p := range r.progress {
		if p.Whole {
			return
		}
	}
}

// until waits until something is true of what the destination has.
func (r *rig) until(what string, so func() bool) {
	r.t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		is := so()
		r.mu.Unlock()
		if is {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("waited in vain: %s; there is %v", what, r.has)
		}
	}
}

// TestGoes: all goes, then what changes. At the end the destination has what workers have copied,
// and they are told to forget it.
func TestGoes(t *testing.T) {
	a, b := newWorker(1, 2, 3), newWorker(4)
	r := newRig(t, a, b)
	if went := r.Finish(); went.Number() != 0 || went.Has(a) {
		t.Error("something went before anything did")
	}
	r.begin()
	want := map[string]byte{"0 0": 1, "0 1": 2, "0 2": 3, "1 0": 4}
	r.until("all goes", func() bool { return maps.Equal(r.has, want) })
	a.Write(1, 9)
	r.until("what has changed goes", func() bool { return r.has["0 1"] == 9 })
	if _, err := r.Send(nil, nil); !errors.Is(err, passes.ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	went := r.Finish()
	if err := <-r.sent; err != nil || !r.all {
		t.Errorf("%v, all: %t", err, r.all)
	}
	if went.Number() == 0 || !went.Has(a) || !went.Has(b) || went.Has(newWorker()) ||
		went.Has(7) {
		t.Errorf("went: %d, %t, %t", went.Number(), went.Has(a), went.Has(b))
	}
	if over(a) != 0 {
		t.Error("a worker forgets what it has copied before it is asked")
	}
	went.Over(1)
	if begun, _ := a.Told(); over(a) != 1 || over(b) != 1 || begun != 1 {
		t.Errorf("told %d and %d times, begun %d times", over(a), over(b), begun)
	}
	if again := r.Finish(); again.Number() != 0 {
		t.Error("it went twice")
	}
}

// TestOthers: programs that begin go, and those that end cost nothing more. A program isn't taken
// for the one before it in its channel.
func TestOthers(t *testing.T) {
	a, b := newWorker(1), newWorker(2)
	r := newRig(t, a)
	r.begin()
	r.serves(b)
	r.until("a program that has begun goes", func() bool { return r.has["0 0"] == 2 })
	went := r.Finish()
	if err := <-r.sent; err != nil {
		t.Fatal(err)
	}
	if went.Has(a) || !went.Has(b) {
		t.Errorf("went: %t, %t", went.Has(a), went.Has(b))
	}
	went.Over(0)
	if over(a) != 0 {
		t.Error("a worker that has ended is told something")
	}
	a.PrecopyOver() // gives back what is this test's
}

// TestBreaks: where the way breaks, or nobody is there, nothing went, and the log says so.
func TestBreaks(t *testing.T) {
	a := newWorker(1)
	r := newRig(t, a)
	r.begin()
	_ = r.near.Close()
	err := <-r.sent
	if err == nil {
		t.Fatal("it goes where nobody is")
	}
	if went := r.Finish(); went.Number() != 0 || went.Has(a) {
		t.Error("something went")
	}
	if !bytes.Contains(r.log.Bytes(), []byte("all goes with the VM")) || over(a) != 1 {
		t.Errorf("the log says %q, told %d times", r.log.String(), over(a))
	}
	r = newRig(t, a)
	near, far := net.Pipe()
	go func() {
		_, _ = io.CopyN(io.Discard, far, 10)
		_ = far.Close()
	}()
	if _, err := r.Send(near, nil); err == nil {
		t.Error("it goes where nobody is")
	}
	// while it finishes
	b := newWorker(2)
	r = newRig(t, b)
	r.begin()
	b.Says(func() ([]uint64, bool, error) { return nil, true, nil })
	_ = r.near.Close()
	if went := r.Finish(); went.Number() != 0 || went.Has(b) {
		t.Error("something went")
	}
	if err := <-r.sent; err == nil {
		t.Error("it went")
	}
}
