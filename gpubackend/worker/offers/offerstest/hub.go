// SPDX-License-Identifier: Apache-2.0

// Package offerstest stands for a device process between workers that share something, in tests.
package offerstest

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/shares"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
)

// Hub is that device process.
type Hub struct{ shares *shares.Broker }

// New makes a Hub.
func New() *Hub {
	return &Hub{shares.New(shares.Config{Patience: time.Minute,
		Guard: func(_ string, f func()) bool { f(); return true }})}
}

// worker is one of the hub's.
type worker struct {
	hub    *Hub
	offers *offers.Offers
	ended  atomic.Bool
}

// Worker is another worker. End ends it.
func (h *Hub) Worker() (o *offers.Offers, end func()) {
	w := &worker{hub: h}
	w.offers = offers.New(w)
	w.offers.Listens()
	return w.offers, func() {
		w.offers.End()
		w.ended.Store(true)
		h.shares.Ended(w)
	}
}

// Send implements offers.Sender.
func (w *worker) Send(m *handover.Message, fds []int) error {
	w.hub.shares.Said(w, m, copied(fds))
	return nil
}

// Tell implements shares.Peer.
func (w *worker) Tell(m *handover.Message, fds []int) {
	own := copied(fds)
	go func() { _, _ = w.offers.Obey(m, own) }()
}

// Ended implements shares.Peer.
func (w *worker) Ended() bool { return w.ended.Load() }

// copied are descriptors of the receiver's own.
func copied(fds []int) (own []int) {
	for _, fd := range fds {
		fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			panic(err)
		}
		own = append(own, fd)
	}
	return own
}
