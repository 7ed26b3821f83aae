// SPDX-License-Identifier: Apache-2.0

// Package warm keeps processes that were started, and made ready, before there is a use for them:
// the warm workers of a VM. One that is taken or lost isn't replaced before the device asks for it
// (Keep): otherwise a process that always fails would be started for ever.
//
// # Who owns what
//
// The owner of a Pool (package device/ahead) may hold a lock when it calls it. The pool has its own
// lock, which it holds while it calls the functions of Config: these must not call the pool. A
// process belongs to the pool until it is taken or lost.
//
// # Who may lie
//
// The processes may: they may never become ready, fail, or end at any moment. Take waits for one as
// long as Patience, and ends it if it isn't ready by then.
package warm

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/pace"
)

// Config is what a pool needs.
type Config[P comparable] struct {
	// Start starts a process. The function that it returns makes the process get ready, and may
	// take a while.
	Start func() (p P, ready func() error, err error)
	// Kill ends a process. For one that has ended it does nothing.
	Kill func(P)
	// Go runs f on another goroutine.
	Go func(f func())
	// Later waits that long, calls due, and then lets Keep be called.
	Later    func(wait time.Duration, due func())
	Pace     *pace.Pace    // how often a process may be started
	Patience time.Duration // how long Take waits for one
	Log      *logrus.Entry
}

// Pool is the processes that are kept.
type Pool[P comparable] struct {
	config Config[P]

	mu      sync.Mutex
	kept    []*spare[P] // oldest first
	waiting bool        // Later has been asked
}

// spare is a process of a pool.
type spare[P comparable] struct {
	process P
	done    chan struct{} // closed when it is ready, or can't be
	failure error         // why it can't; set before done is closed
}

// New makes an empty pool.
func New[P comparable](c Config[P]) *Pool[P] { return &Pool[P]{config: c} }

// Keep starts as many processes as are missing, and ends those that are too many.
func (p *Pool[P]) Keep(want int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.kept) > want {
		last := len(p.kept) - 1
		p.config.Kill(p.kept[last].process)
		p.kept = p.kept[:last]
	}
	for len(p.kept) < want {
		if wait, ok := p.config.Pace.Try(); !ok {
			p.later(wait)
			return
		}
		process, ready, err := p.config.Start()
		if err != nil {
			p.config.Log.WithError(err).Warn("start a worker ahead of use")
			return
		}
		m := &spare[P]{process: process, done: make(chan struct{})}
		p.kept = append(p.kept, m)
		p.config.Go(func() { p.prepare(m, ready) })
	}
}

// later arranges for Keep to be called when there is a turn for the next process.
func (p *Pool[P]) later(wait time.Duration) {
	if p.waiting {
		return
	}
	p.waiting = true
	p.config.Later(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting = false
	})
}

// prepare makes a process get ready.
func (p *Pool[P]) prepare(m *spare[P], ready func() error) {
	err := errors.New("a panic kept it from getting ready")
	defer func() { // also if ready panics
		if err != nil {
			p.config.Kill(m.process)
			p.mu.Lock()
			defer p.mu.Unlock()
			m.failure = err
			p.drop(m.process, err)
		}
		close(m.done)
	}()
	err = ready()
}

// Lost forgets a process that has ended. If it was kept, the log says that it is lost, and why.
func (p *Pool[P]) Lost(process P, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(process, err)
}

// drop is Lost with the lock. A process that isn't kept was ended on purpose, or was taken.
func (p *Pool[P]) drop(process P, err error) {
	i := slices.IndexFunc(p.kept, func(m *spare[P]) bool { return m.process == process })
	if i < 0 {
		return
	}
	p.kept = slices.Delete(p.kept, i, i+1)
	p.config.Log.WithError(err).Info(lost)
}

const lost = "a worker that was started ahead of use is lost"

// Take takes the oldest process, ready or soon to be: that is sooner than a new one would be. It
// returns false if there is none, or if it doesn't become ready in time or before quit is closed;
// then it is ended.
func (p *Pool[P]) Take(quit <-chan struct{}) (process P, ok bool) {
	p.mu.Lock()
	if len(p.kept) == 0 {
		p.mu.Unlock()
		return process, false
	}
	m := p.kept[0]
	p.kept = slices.Delete(p.kept, 0, 1)
	p.mu.Unlock()
	timer := time.NewTimer(p.config.Patience)
	defer timer.Stop()
	select {
	case <-m.done:
	case <-quit:
	case <-timer.C:
	}
	return m.process, p.usable(m)
}

// usable says whether a process that was taken is ready. Otherwise it is ended.
func (p *Pool[P]) usable(m *spare[P]) bool {
	select {
	case <-m.done:
		if m.failure == nil {
			return true
		}
		p.config.Log.WithError(m.failure).Info(lost)
	default:
		p.config.Log.Info("a worker that was started ahead of use did not become warm in time: " +
			"it is killed")
	}
	p.config.Kill(m.process)
	return false
}

// PutBack returns a process that was taken, as the oldest. The next Keep ends surplus ones.
func (p *Pool[P]) PutBack(process P) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &spare[P]{process: process, done: make(chan struct{})}
	close(m.done)
	p.kept = slices.Insert(p.kept, 0, m)
}

// Kept are the processes that are kept, oldest first, and how many of them are ready.
func (p *Pool[P]) Kept() (all []P, ready int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.kept {
		all = append(all, m.process)
		select {
		case <-m.done:
			ready++
		default:
		}
	}
	return all, ready
}
