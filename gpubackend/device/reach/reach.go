// SPDX-License-Identifier: Apache-2.0

// Package reach gives the workers of a VM their connections to its mover, and takes them back. The
// mover begins with the VM's first copy: a worker asks for it when it needs one. When programs have
// copied nothing for idle-time, their workers are told to give up their connections, and when none
// has one the mover is stopped. The next copy begins another.
//
// # Who owns what
//
// A Reach knows which workers have a connection, and to which mover. It has a lock of its own,
// under which it asks Config.Copied, Config.Unmet and package movers, and waits for nobody: readers
// of workers' messages may call it.
//
// # Who may lie
//
// Workers. However often one asks, it gets one connection and waits for one answer. One that
// doesn't give up its connection keeps the mover.
package reach

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/movers"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
)

// Config is what a Reach needs of its VM.
type Config struct {
	Movers *movers.Movers
	// Need returns the mover, which is started if there is none (movers.Movers.Need). It doesn't
	// wait until it is ready.
	Need     func(kills uint64) (*movers.Mover, error)
	Here     func() bool          // the guest's memory is known
	Came     <-chan struct{}      // closed when it is known for the first time
	IdleTime func() time.Duration // 0: it never ends
	Copied   func() uint64        // by all workers, in bytes
	Unmet    func() bool          // a worker that was taken over hasn't reported its position
	Vouchers func() uint64        // where the guest's driver vouches for pages; 0: nowhere
	// Guard runs a part of this package, and survives its faults; Run does so on a goroutine for
	// which the device's end waits.
	Guard func(part string, f func()) bool
	Run   func(part string, f func())
	Log   *logrus.Entry
}

// Reach knows which workers of a VM have its mover.
type Reach struct {
	config Config

	mu     sync.Mutex
	has    map[*workers.Worker]*movers.Mover // nil: they wait for it; guarded by mu, as all here
	timer  *time.Timer                       // runs at the end of each idle time with a mover
	copied uint64                            // when it ran last
}

// New returns the Reach of a VM without a mover.
func New(c Config) *Reach {
	return &Reach{config: c, has: map[*workers.Worker]*movers.Mover{}}
}

// tries is how often a mover is started because the last one was about to end.
const tries = 3

var (
	errConnected = errors.New("the worker has a connection to the mover already")
	errNobody    = errors.New("the worker serves nobody")
)

// Of is the mover to which a worker has a connection; nil: it waits for one; false: neither.
func (r *Reach) Of(w *workers.Worker) (m *movers.Mover, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, known = r.has[w]
	return m, known
}

// Wanted gives a worker a connection to the mover, which is started if there is none: the first
// copy of a VM begins it. It doesn't wait.
func (r *Reach) Wanted(w *workers.Worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	had, known := r.has[w]
	if known && had == nil || w.Ended() {
		return // it already waits for the answer
	}
	r.has[w] = nil
	r.config.Run("a worker's connection to the mover", func() {
		end, m, err := r.connect(w, had)
		r.connected(w, m)
		answer := &handover.Message{Kind: handover.KindMover}
		if err != nil {
			answer.Error = err.Error()
			w.Log().WithError(err).Error("connect a worker to the mover")
			w.Tell(answer, nil)
			return
		}
		defer end.Close()
		w.Tell(answer, end.Put(answer))
	})
}

// connect returns a worker's end of a connection to the mover, and that mover. It waits until the
// mover is ready, without the lock.
func (r *Reach) connect(
	w *workers.Worker, had *movers.Mover,
) (end link.Half, m *movers.Mover, err error) {
	r.awaitMemory(w)
	for range tries {
		if m, err = r.mover(w, had); err != nil {
			return link.None, had, err
		}
		again, err := r.config.Movers.Await(m)
		if again {
			continue
		}
		if err != nil {
			return link.None, nil, fmt.Errorf("start the mover: %w", err)
		}
		end, err := r.config.Movers.Connect(m, w.Channel(), r.config.Vouchers())
		switch {
		case err == nil:
			return end, m, nil
		case !errors.Is(err, movers.ErrNotReady):
			return link.None, nil, err
		}
	}
	return link.None, nil, movers.ErrNotReady
}

// memoryWait is how long a worker waits for the guest's memory at most.
const memoryWait = 2 * time.Second

// awaitMemory waits for the guest's memory: a device process may hear from a worker that it has
// taken over before it has the memory.
func (r *Reach) awaitMemory(w *workers.Worker) {
	end := time.NewTimer(memoryWait)
	defer end.Stop()
	select {
	case <-r.config.Came:
	case <-w.Exited():
	case <-end.C:
	}
}

// mover returns the mover for a worker, which is started if there is none. A worker has one
// connection to it.
func (r *Reach) mover(w *workers.Worker, had *movers.Mover) (*movers.Mover, error) {
	kills := r.config.Movers.Kills() // all workers are killed before the mover is
	switch {
	case w.Ended() || w.Killed() || w.Channel() < 0 || !r.config.Here():
		return nil, errNobody
	case had != nil && had == r.config.Movers.Current():
		return nil, errConnected
	}
	m, err := r.config.Need(kills)
	if err != nil {
		return nil, fmt.Errorf("start the mover: %w", err)
	}
	// Not before there is one: a look that finds none is the last.
	r.mu.Lock()
	r.lookLater()
	r.mu.Unlock()
	return m, nil
}

// TakenOver is told that the mover was taken over from the previous device process.
func (r *Reach) TakenOver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookLater()
}

// Joins is told that a worker that was taken over has a connection to the mover.
func (r *Reach) Joins(w *workers.Worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.config.Movers.Current(); m != nil && !w.Ended() {
		r.has[w] = m
	}
}

// connected notes the mover to which a worker has a connection; nil: none.
func (r *Reach) connected(w *workers.Worker, m *movers.Mover) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.has, w); m != nil && !w.Ended() {
		r.has[w] = m
	}
}

// Ending is told that a mover was killed. Workers that have it give it up, unless it has copies of
// theirs: it may take long to end, and answers nobody.
func (r *Reach) Ending(m *movers.Mover) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w, mover := range r.has {
		if mover == m {
			w.Tell(&handover.Message{Kind: handover.KindRelease, Error: "it was killed"}, nil)
		}
	}
}

// Forget is told that a worker has ended.
func (r *Reach) Forget(w *workers.Worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.has, w)
}

// Released is told that a worker has given up its connection. When no worker has or wants one any
// more, the mover is stopped.
func (r *Reach) Released(w *workers.Worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.has[w] != nil {
		delete(r.has, w)
	}
	if len(r.has) > 0 || r.config.Unmet() {
		return
	}
	if stop := r.config.Movers.BeginStop(); stop != nil {
		r.config.Log.Debug("nothing was copied for long: the mover ends")
		r.config.Run("a mover's stop", stop)
	}
}

// lookEvery is the time between looks if there is no idle time: one may be set.
const lookEvery = time.Minute

// lookLater arranges a look after the idle time, unless there is one. The lock is held.
func (r *Reach) lookLater() {
	if r.timer == nil {
		r.timer = time.AfterFunc(cmp.Or(r.config.IdleTime(), lookEvery),
			func() { r.config.Guard("a mover's rest", r.look) })
	}
}

// look finds out whether anything was copied since the last look.
func (r *Reach) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = nil
	if r.config.Movers.Current() == nil {
		return
	}
	copied := r.config.Copied()
	lasts := copied == r.copied && r.config.IdleTime() != 0
	r.copied = copied
	r.lookLater()
	if !lasts {
		return
	}
	for w, mover := range r.has {
		if mover != nil {
			w.Tell(&handover.Message{Kind: handover.KindRelease}, nil)
		}
	}
}
