// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	sizes "github.com/paracuda/paracuda/gpubackend/size"
)

// Worker is a process of the VM that has device memory. It must be comparable.
type Worker interface {
	// Drain makes its work end, within grace, and says how much it has to move. With whole, it is
	// an error if the program can't be saved. turn tells this request from earlier ones, whose
	// answers may still come.
	// The error wraps ErrBusy if its work has gone on for longer.
	Drain(turn uint64, grace time.Duration, whole bool) (bytes uint64, err error)
	// MoveOut moves that much out. With keep, the worker may keep it in the host's memory when it
	// goes on, until Forget, so that less must be copied the next time. MoveBack moves out again
	// what came in and hasn't changed.
	MoveOut(bytes uint64, keep bool) (Carried, error)
	Forget()
	MoveBack(bytes uint64) error
	MoveIn(bytes uint64) error
	// EndBusy ends it, since its work goes on, and waits for its end. Its program loses the GPU.
	EndBusy()
	// Ended says whether it is gone, with all its memory.
	Ended() bool
	String() string // the program that it serves
}

// Carried is the result of a MoveOut: how much didn't need to be copied, and whether the worker
// keeps it.
type Carried struct {
	Unchanged uint64
	Keeps     bool
}

// ErrEnded is the error of a worker that is gone or about to end: it has nothing to move.
var ErrEnded = errors.New("the worker has ended")

// ErrBusy is wrapped by the error of a worker whose work goes on.
var ErrBusy = errors.New("its work goes on")

// Config is what a Suspension needs of its VM. Its functions are called without a lock held.
type Config struct {
	// Hold is called after Held has become true. It returns all workers that serve a program.
	Hold func() []Worker
	// GoOn is called after Held has become false: it makes all workers go on.
	GoOn func()
	// Terms returns how long work may take to end, and how much may be moved; 0: no bound.
	Terms func() (grace time.Duration, most uint64)
	Room  func() (uint64, error) // what the host has for it
	// Keep is how much may stay in the host's memory while the VM runs; nil: nothing.
	Keep  func() uint64
	Stays func() uint64 // what the VM has on its GPUs
	// Note notes whether the VM is suspended, for a process that takes it over; nil: none will.
	Note func(suspended bool)
	// Guard runs f, and says whether it came to its end.
	Guard func(part string, f func()) bool
	Log   *logrus.Entry
}

// Moved is how a VM was suspended or resumed.
type Moved struct {
	Bytes uint64        `json:"bytes"` // that were moved
	Stays uint64        `json:"stays"` // on the GPU, when it was suspended
	Took  time.Duration `json:"took"`
	// part of Bytes that was kept from the last time and didn't need to be copied
	Unchanged uint64 `json:"unchanged,omitempty"`
	// part of Bytes that was written to a file before, while the programs ran, and how long that
	// took, before Took
	Early uint64        `json:"early,omitempty"`
	Ran   time.Duration `json:"ran,omitempty"`
	// programs that were ended, since their work went on
	Killed []string `json:"killed,omitempty"`
}

// Progress is how much has been moved.
type Progress struct {
	Done uint64 `json:"done"`
	All  uint64 `json:"all"` // 0: that isn't known yet
	// the programs run meanwhile
	Early bool `json:"early,omitempty"`
}

// Status says whether a VM is suspended, and how much of the host's memory that takes.
type Status struct {
	State State  `json:"state"`
	Image uint64 `json:"image"`
	Kept  uint64 `json:"kept,omitempty"`  // of memory that is on the GPU, for the next time
	Saved bool   `json:"saved,omitempty"` // all of it is in a file
}

// Suspension moves a VM's device memory out and in. All methods may be called at any time.
type Suspension struct {
	Config
	states States
	held   atomic.Bool
	saved  atomic.Bool // to a file: workers have nothing
	drains uint64      // how often workers were told to drain: the turn of the change under way

	mu      sync.Mutex
	drained map[Worker]uint64 // by the last change, and how much each has to move
	doomed  []Worker          // that the change under way will kill, since they are busy
	out     map[Worker]uint64 // whose memory is out, and how much that is
	kept    map[Worker]uint64 // who keeps a copy of it when it is in, and how much

	missing  int           // workers of the earlier process that haven't rejoined; guarded by mu
	rejoined chan struct{} // closed when all have; nil: none is missing; guarded by mu
}

// New returns the suspension of a VM that runs.
func New(c Config) *Suspension {
	return &Suspension{Config: c, out: make(map[Worker]uint64), kept: make(map[Worker]uint64)}
}

// movement counts what is moved, for concurrent readers.
type movement struct{ done, all atomic.Uint64 }

// errMoving is wrapped by errors after which the VM is as it was before.
var errMoving = errors.New("device memory isn't moved")

// errUnsaved is wrapped by errors after which a VM isn't saved and is as it was before.
var errUnsaved = errors.New("its programs can't be saved now")

// errStranded says that memory which was moved out can't come back now.
var errStranded = errors.New("what was moved out can't be moved in again: the VM is suspended: " +
	"paracuda resume tries once more")

// errFault is the error of a change that panicked.
var errFault = errors.New("an internal fault: see the log of the device process")

// progressPause is the time between two reports of progress.
const progressPause = 250 * time.Millisecond

// Held says whether workers that start now begin as drained.
func (s *Suspension) Held() bool { return s.held.Load() }

// State is the VM's.
func (s *Suspension) State() State { return s.states.State() }

// Idle is closed when no change is under way.
func (s *Suspension) Idle() <-chan struct{} { return s.states.Idle() }

// Status returns the VM's status.
func (s *Suspension) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{State: s.states.State(), Image: sum(s.out), Kept: sum(s.keptIn()),
		Saved: s.saved.Load()}
}

// Forget forgets a worker that has ended.
func (s *Suspension) Forget(w Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.out, w)
	delete(s.kept, w)
}

// Suspend moves all memory out, and reports its progress.
func (s *Suspension) Suspend(tell func(Progress)) (Moved, error) {
	return s.atLength(Suspending, func(p *movement) (Moved, error) {
		return s.moveAllOut(false, p)
	}, tell)
}

// SuspendKilling is Suspend, but kills workers whose work goes on.
func (s *Suspension) SuspendKilling(tell func(Progress)) (Moved, error) {
	return s.atLength(Suspending, func(p *movement) (Moved, error) {
		return s.moveAllOut(true, p)
	}, tell)
}

// Resume moves it in again.
func (s *Suspension) Resume(tell func(Progress)) (Moved, error) {
	return s.atLength(Resuming, s.moveAllIn, tell)
}

// atLength makes a change on another goroutine, and reports its progress.
func (s *Suspension) atLength(
	to State, work func(*movement) (Moved, error), tell func(Progress),
) (m Moved, err error) {
	var p movement
	done := make(chan struct{})
	go func() {
		defer close(done)
		if !s.Guard("a suspension", func() { m, err = s.change(to, work, &p) }) {
			m, err = Moved{}, errFault
		}
	}()
	ticker := time.NewTicker(progressPause)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return m, err
		case <-ticker.C:
			tell(Progress{Done: p.done.Load(), All: p.all.Load()})
		}
	}
}

// change makes a change, if the state allows it.
func (s *Suspension) change(
	to State, work func(*movement) (Moved, error), p *movement,
) (m Moved, err error) {
	s.awaitRejoined()
	begin := time.Now()
	if err := s.states.Begin(to); err != nil {
		return m, err
	}
	done := false
	defer func() { s.states.End(done) }()
	m, err = work(p)
	done = err == nil || errors.Is(err, errStranded) // if memory stays out, the VM is suspended
	if err != nil {
		s.Log.WithError(err).Warnf("the VM is not %s", to)
		return Moved{}, err
	}
	m.Took = time.Since(begin)
	s.Log.WithField("bytes", m.Bytes).Infof("the VM was %s", to)
	return m, nil
}

// moveAllOut suspends the VM.
func (s *Suspension) moveAllOut(kill bool, p *movement) (m Moved, err error) {
	suspended := false
	defer func() {
		if !suspended {
			s.letGo()
		}
	}()
	plans, err := s.drainAll(false, kill)
	if err != nil {
		return m, err
	}
	m.Bytes = sum(plans)
	p.all.Store(m.Bytes)
	if err := s.roomFor(m.Bytes, s.reused(plans)); err != nil {
		return m, err
	}
	keep := s.mayKeep(plans)
	for w, bytes := range plans {
		unchanged, err := s.moveOut(w, bytes, keep[w])
		if err != nil {
			back := s.bringBack()
			if suspended = back != nil; suspended {
				s.tellNote(true)
			}
			return m, errors.Join(fmt.Errorf("%w: %w", errMoving, err), back)
		}
		m.Unchanged += unchanged
		p.done.Add(bytes)
	}
	suspended = true
	m.Killed = s.killBusy()
	s.tellNote(true)
	m.Stays = s.Stays()
	return m, nil
}

// sum adds up bytes, and stops at the largest number: workers may lie.
func sum(plans map[Worker]uint64) (all uint64) {
	for _, bytes := range plans {
		if all += bytes; all < bytes {
			return math.MaxUint64
		}
	}
	return all
}

// drainAll makes the work of all workers end, and returns how much each has to move. Workers that
// start from now on begin no work. With kill, it is no error that some are busy: they are doomed.
func (s *Suspension) drainAll(whole, kill bool) (plans map[Worker]uint64, err error) {
	s.held.Store(true)
	s.drains++
	turn := s.drains
	grace, _ := s.Terms()
	plans = make(map[Worker]uint64)
	var doomed []Worker
	var stay []string
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, w := range s.Hold() {
		all.Go(func() {
			s.Guard("draining a worker", func() {
				bytes, err := w.Drain(turn, grace, whole)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					plans[w] = bytes
				case kill && errors.Is(err, ErrBusy):
					doomed = append(doomed, w)
				case !errors.Is(err, ErrEnded):
					stay = append(stay, fmt.Sprintf("%v: %v", w, err))
				}
			})
		})
	}
	all.Wait()
	if len(stay) > 0 { // nothing is going to be moved
		doomed = nil
	}
	s.mu.Lock()
	s.drained, s.doomed = plans, doomed
	s.mu.Unlock()
	return plans, notDrained(stay, whole, grace)
}

// notDrained is the error for workers that aren't drained; nil: all are.
func notDrained(stay []string, whole bool, grace time.Duration) error {
	if len(stay) == 0 {
		return nil
	}
	slices.Sort(stay)
	if whole { // not a matter of waiting: there may be other reasons than work that goes on
		return fmt.Errorf("%w: %s", errUnsaved, strings.Join(stay, ", "))
	}
	return fmt.Errorf("busy: %w: %s: stop-grace=%v is how long work may take",
		errMoving, strings.Join(stay, ", "), grace)
}

// killBusy ends the doomed workers, all at the same time, and returns their programs. That is the
// last step of a change: before it, nothing is lost if the change fails.
func (s *Suspension) killBusy() (killed []string) {
	s.mu.Lock()
	doomed := s.doomed
	s.doomed = nil
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, w := range doomed {
		killed = append(killed, w.String())
		all.Go(func() { s.Guard("the end of a worker", w.EndBusy) })
	}
	all.Wait()
	slices.Sort(killed)
	return killed
}

// roomFor says whether the host has room for this much, of which it has given some already.
func (s *Suspension) roomFor(bytes, given uint64) error {
	_, most := s.Terms()
	if most != 0 && bytes > most {
		return fmt.Errorf("%w: it is %d bytes: suspend-memory=%s allows less",
			errMoving, bytes, sizes.Format(most))
	}
	switch room, err := s.Room(); {
	case err != nil:
		return fmt.Errorf("%w: %w", errMoving, err)
	case bytes-given > room:
		return fmt.Errorf("%w: it is %d bytes, and the host has %d for it", errMoving,
			bytes-given, room)
	}
	return nil
}

// letGo makes all workers go on.
func (s *Suspension) letGo() {
	s.mu.Lock()
	s.doomed = nil
	s.mu.Unlock()
	s.tellNote(false)
	s.held.Store(false)
	s.GoOn()
}
