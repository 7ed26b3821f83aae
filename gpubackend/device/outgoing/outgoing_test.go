// SPDX-License-Identifier: Apache-2.0

package outgoing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/precopy"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

const (
	soon = time.Minute
	base = 1 << 44
)

var header = precopy.Header{GPU: "soft", Version: "1"}

// worker has some sectors, each filled with one byte. It copies one in each step.
type worker struct {
	mu      sync.Mutex
	sectors []byte
	dirty   []bool
	next    int
	buffer  int
	begun   int
	over    int
	says    func() ([]uint64, bool, error) // in place of a step; nil: it does what it should
}

func newWorker(sectors ...byte) *worker {
	w := &worker{sectors: sectors, dirty: make([]bool, len(sectors)), buffer: -1}
	for i := range w.dirty {
		w.dirty[i] = true
	}
	return w
}

func (w *worker) Precopy(buffer *os.File) (sectors []uint64, over bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if buffer != nil {
		w.begun++
		w.buffer, err = unix.FcntlInt(buffer.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		return nil, false, err
	}
	if w.says != nil {
		return w.says()
	}
	for ; w.next < len(w.sectors); w.next++ {
		if w.dirty[w.next] {
			b := bytes.Repeat(w.sectors[w.next:w.next+1], sectorsum.Bytes)
			if _, err := unix.Pwrite(w.buffer, b, 0); err != nil {
				return nil, false, err
			}
			w.dirty[w.next] = false
			sectors = []uint64{base + uint64(w.next)*sectorsum.Bytes}
			w.next++
			break
		}
	}
	if over = w.next == len(w.sectors); over {
		w.next = 0
	}
	return sectors, over, nil
}

func (w *worker) PrecopyOver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over++
	_ = unix.Close(w.buffer)
}

// write changes a sector.
func (w *worker) write(sector int, with byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sectors[sector], w.dirty[sector] = with, true
}

// rig is a VM, and the device process to which it goes.
type rig struct {
	*Outgoing
	t        *testing.T
	mu       sync.Mutex
	programs []Program
	log      bytes.Buffer
	progress chan Progress
	sent     chan error
	near     net.Conn
	has      map[string]byte // what the destination has, by channel and number
	all      bool
}

func newRig(t *testing.T, list ...*worker) *rig {
	t.Helper()
	r := &rig{t: t, progress: make(chan Progress, 1000), sent: make(chan error, 1),
		has: map[string]byte{}}
	r.serves(list...)
	log := logrus.New()
	log.SetOutput(&r.log)
	r.Outgoing = New(Config{Header: header, Limit: soon, Log: logrus.NewEntry(log),
		Programs: func() []Program {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.programs
		}})
	return r
}

// serves makes these the VM's programs.
func (r *rig) serves(list ...*worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.programs = nil
	for i, w := range list {
		r.programs = append(r.programs, Program{Channel: i, Worker: w})
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
	a.write(1, 9)
	r.until("what has changed goes", func() bool { return r.has["0 1"] == 9 })
	if _, err := r.Send(nil, nil); !errors.Is(err, errBusy) {
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
	if a.over != 0 {
		t.Error("a worker forgets what it has copied before it is asked")
	}
	went.Over(1)
	if a.over != 1 || b.over != 1 || a.begun != 1 {
		t.Errorf("told %d and %d times, begun %d times", a.over, b.over, a.begun)
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
	if a.over != 0 {
		t.Error("a worker that has ended is told something")
	}
	a.PrecopyOver() // gives back what is this test's
}

// TestWorkersThatLie: of one that says what can't be, or doesn't answer, nothing went; others don't
// notice. One that can't copy just now does so later.
func TestWorkersThatLie(t *testing.T) {
	for name, says := range map[string]func() ([]uint64, bool, error){
		"too many sectors": func() ([]uint64, bool, error) {
			return make([]uint64, BufferSectors+1), false, nil
		},
		"no sector": func() ([]uint64, bool, error) { return []uint64{base + 1}, false, nil },
		"no answer": func() ([]uint64, bool, error) { return nil, false, os.ErrDeadlineExceeded },
	} {
		a, b := newWorker(1), newWorker(2)
		a.says = says
		r := newRig(t, a, b)
		r.begin()
		went := r.Finish()
		if err := <-r.sent; err != nil {
			t.Fatal(err)
		}
		if went.Has(a) || !went.Has(b) {
			t.Errorf("%s: went: %t, %t", name, went.Has(a), went.Has(b))
		}
		went.Over(0)
	}
	a := newWorker(1)
	tries := 0
	a.says = func() ([]uint64, bool, error) {
		if tries++; tries == 1 {
			a.says = nil
		}
		return nil, false, fmt.Errorf("a graph is captured: %w", ErrNone)
	}
	r := newRig(t, a)
	r.begin()
	r.until("it goes later", func() bool { return len(r.has) == 1 })
	went := r.Finish()
	if err := <-r.sent; err != nil || !went.Has(a) {
		t.Errorf("%v, went: %t", err, went.Has(a))
	}
	went.Over(0)
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
	if !bytes.Contains(r.log.Bytes(), []byte("all goes with the VM")) || a.over != 1 {
		t.Errorf("the log says %q, told %d times", r.log.String(), a.over)
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
	b.mu.Lock()
	b.says = func() ([]uint64, bool, error) { return nil, true, nil }
	b.mu.Unlock()
	_ = r.near.Close()
	if went := r.Finish(); went.Number() != 0 || went.Has(b) {
		t.Error("something went")
	}
	if err := <-r.sent; err == nil {
		t.Error("it went")
	}
}
