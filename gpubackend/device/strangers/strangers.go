// SPDX-License-Identifier: Apache-2.0

// Package strangers returns what a driver that isn't ours puts into the channels' queues. If a file
// system's device carries the queues, the kernel's virtiofs may get the device before our driver,
// and waits for its requests before it lets go.
//
// # Who owns what
//
// A Watch has one goroutine for each queue that runs before our driver has greeted, and a lock of
// its own. It only calls Config.Return, and without the lock. The lock is taken after that of the
// queues' owner.
//
// # Who may lie
//
// The guest, whose driver it is: what it asks is never looked at.
package strangers

import (
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/vhostuser"
)

// Config is what a Watch needs.
type Config struct {
	// Return gives a queue's chains back, if nobody has the queue and still is true under the lock
	// of the queues' owner.
	Return func(queue int, still func() bool)
	// Guard runs a part of this package, and survives its faults.
	Guard func(part string, f func()) bool
	Log   *logrus.Entry
}

// Watch watches the queues of a VM until our driver has greeted.
type Watch struct {
	config Config

	mu      sync.Mutex
	greeted bool              // our driver has; guarded by mu, as is what follows
	queues  map[int]*stranger // that are watched
}

// stranger is the driver of a queue.
type stranger struct {
	kick  *vhostuser.Waiter
	ended chan struct{}
}

// New returns a Watch that watches nothing yet.
func New(c Config) *Watch { return &Watch{config: c, queues: map[int]*stranger{}} }

// Begin watches a queue that starts, unless our driver has greeted. kicks makes a waiter for its
// kicks, which is the Watch's.
func (w *Watch) Begin(queue int, kicks func() (*vhostuser.Waiter, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.greeted {
		return
	}
	kick, err := kicks()
	if err != nil {
		w.config.Log.WithError(err).Info("requests of a foreign driver stay unanswered")
		return
	}
	s := &stranger{kick: kick, ended: make(chan struct{})}
	w.queues[queue] = s
	go w.config.Guard("a foreign driver's queue", func() {
		defer close(s.ended)
		for s.kick.Wait() == nil {
			w.config.Return(queue, func() bool { return w.watches(queue, s) })
		}
	})
}

// watches says whether the queue is still that driver's.
func (w *Watch) watches(queue int, s *stranger) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queues[queue] == s
}

// End stops watching a queue that stops.
func (w *Watch) End(queue int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.queues[queue]; s != nil {
		_ = s.kick.Close()
		delete(w.queues, queue)
	}
}

// Greet says that our driver has greeted. When it returns, only workers get kicks.
func (w *Watch) Greet() {
	w.mu.Lock()
	w.greeted = true
	before := w.queues
	w.queues = map[int]*stranger{}
	w.mu.Unlock()
	for _, s := range before {
		_ = s.kick.Close()
		<-s.ended
	}
}

// Expect sets whether our driver has greeted, before the channels' queues start.
func (w *Watch) Expect(greeted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.greeted = greeted
}

// Greeted says whether our driver has greeted.
func (w *Watch) Greeted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.greeted
}
