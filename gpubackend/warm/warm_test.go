// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/pace"
	"github.com/paracuda/paracuda/gpubackend/pace/pacetest"
)

// fake is a process that becomes ready when the test says so.
type fake struct {
	number int
	result chan error
	killed chan struct{}
	once   sync.Once
}

func (f *fake) Kill() { f.once.Do(func() { close(f.killed) }) }

func (f *fake) isKilled() bool {
	select {
	case <-f.killed:
		return true
	default:
		return false
	}
}

// rig is a pool and what it needs.
type rig struct {
	t *testing.T
	*Pool[*fake]
	clock   *pacetest.Clock
	started []*fake
	refuse  error         // Start fails
	panics  bool          // ready panics
	dues    []func()      // what Later was given
	waits   time.Duration // their sum
	running sync.WaitGroup
	log     strings.Builder
}

func newRig(t *testing.T, burst float64, patience time.Duration) *rig {
	r := &rig{t: t, clock: pacetest.NewClock()}
	log := logrus.New()
	log.SetOutput(io.Writer(&r.log))
	r.Pool = New(Config[*fake]{
		Start: r.start, Kill: (*fake).Kill, Patience: patience, Log: logrus.NewEntry(log),
		Pace: pace.New(1, burst, r.clock),
		Go: func(f func()) {
			r.running.Go(func() {
				defer func() { _ = recover() }()
				f()
			})
		},
		Later: func(wait time.Duration, due func()) {
			r.dues, r.waits = append(r.dues, due), r.waits+wait
		},
	})
	t.Cleanup(func() {
		for _, f := range r.started {
			f.Kill()
		}
		r.running.Wait()
	})
	return r
}

func (r *rig) start() (*fake, func() error, error) {
	if r.refuse != nil {
		return nil, nil, r.refuse
	}
	f := &fake{number: len(r.started), result: make(chan error, 1), killed: make(chan struct{})}
	r.started = append(r.started, f)
	panics := r.panics
	return f, func() error {
		if panics {
			panic("ready")
		}
		select {
		case err := <-f.result:
			return err
		case <-f.killed:
			return errors.New("killed")
		}
	}, nil
}

// ready makes a process ready, and waits until the pool knows it.
func (r *rig) ready(f *fake) {
	_, before := r.Kept()
	f.result <- nil
	for {
		if _, now := r.Kept(); now > before {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// want compares the numbers of the processes that are kept.
func (r *rig) want(numbers ...int) {
	r.t.Helper()
	var got []int
	kept, _ := r.Kept()
	for _, f := range kept {
		got = append(got, f.number)
	}
	if !slices.Equal(got, numbers) {
		r.t.Fatalf("kept are %v, want %v", got, numbers)
	}
}

// TestKeep starts what is missing, and ends the youngest of what is too much.
func TestKeep(t *testing.T) {
	r := newRig(t, 100, time.Hour)
	r.Keep(3)
	r.want(0, 1, 2)
	r.Keep(3)
	r.want(0, 1, 2)
	r.Keep(1)
	r.want(0)
	if r.started[0].isKilled() || !r.started[1].isKilled() || !r.started[2].isKilled() {
		t.Fatal("others are ended than those that are too much")
	}
	r.Keep(2)
	r.want(0, 3)
	r.Keep(0)
	r.want()
	r.running.Wait()
	if r.log.Len() != 0 {
		t.Errorf("what was ended on purpose is logged:\n%s", &r.log)
	}
}

// TestTakeTheOldest, though it isn't ready yet.
func TestTakeTheOldest(t *testing.T) {
	r := newRig(t, 100, time.Hour)
	if _, ok := r.Take(nil); ok {
		t.Fatal("a process was taken of an empty pool")
	}
	r.Keep(2)
	r.ready(r.started[1])
	r.started[0].result <- nil
	f, ok := r.Take(nil)
	if !ok || f != r.started[0] {
		t.Fatalf("took %v, %v", f, ok)
	}
	r.want(1)
	r.PutBack(f)
	r.want(0, 1)
	if again, ok := r.Take(nil); !ok || again != f {
		t.Fatal("what was put back isn't the next to be taken")
	}
	r.Lost(f, nil)
	r.want(1)
	if r.log.Len() != 0 {
		t.Errorf("the end of a process that was taken is logged:\n%s", &r.log)
	}
}

// TestNotReady are processes that are no use to who takes them: they are ended.
func TestNotReady(t *testing.T) {
	quit := make(chan struct{})
	close(quit)
	for _, tt := range []struct {
		name, log string
		patience  time.Duration
		quit      chan struct{}
		fails     bool
	}{
		{"late", "did not become warm in time", time.Nanosecond, nil, false},
		{"quit", "did not become warm in time", time.Hour, quit, false},
		{"fails", "is lost\" error=no", time.Hour, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 100, tt.patience)
			r.Keep(1)
			f := r.started[0]
			if tt.fails {
				go func() {
					for kept, _ := r.Kept(); len(kept) != 0; kept, _ = r.Kept() {
						time.Sleep(time.Millisecond)
					}
					f.result <- errors.New("no")
				}()
			}
			if _, ok := r.Take(tt.quit); ok {
				t.Fatal("it was given out")
			}
			if !f.isKilled() {
				t.Error("it wasn't ended")
			}
			r.running.Wait()
			if !strings.Contains(r.log.String(), tt.log) {
				t.Errorf("log %q, want %q", &r.log, tt.log)
			}
		})
	}
}

// TestLost are processes that fail or end while they are kept: they are replaced by Keep only.
func TestLost(t *testing.T) {
	for name, lose := range map[string]func(*rig){
		"fails":  func(r *rig) { r.started[0].result <- errors.New("no"); r.running.Wait() },
		"ends":   func(r *rig) { r.ready(r.started[0]); r.Lost(r.started[0], errors.New("no")) },
		"panics": func(r *rig) { r.running.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 100, time.Hour)
			r.panics = name == "panics"
			r.Keep(1)
			lose(r)
			r.want()
			if !strings.Contains(r.log.String(), lost) {
				t.Errorf("log: %q", &r.log)
			}
			r.panics = false
			r.Keep(1)
			r.want(1)
		})
	}
}

// TestStartFails: Keep gives up until it is called again.
func TestStartFails(t *testing.T) {
	r := newRig(t, 100, time.Hour)
	r.refuse = errors.New("no memory is left")
	r.Keep(2)
	r.want()
	if n := strings.Count(r.log.String(), "no memory is left"); n != 1 {
		t.Fatalf("%d lines in the log:\n%s", n, &r.log)
	}
	r.refuse = nil
	r.Keep(2)
	r.want(0, 1)
}

// TestPace: the pool asks once to be called again, and starts no more than it may.
func TestPace(t *testing.T) {
	r := newRig(t, 1, time.Hour)
	r.Keep(3)
	r.want(0)
	r.Keep(3)
	if len(r.dues) != 1 || r.waits != time.Second {
		t.Fatalf("Later was asked %d times, for %v", len(r.dues), r.waits)
	}
	r.clock.Advance(time.Second)
	r.dues[0]()
	r.Keep(3)
	r.want(0, 1)
	if len(r.dues) != 2 {
		t.Fatalf("Later was asked %d times, want 2", len(r.dues))
	}
}
