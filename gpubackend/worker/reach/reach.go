// SPDX-License-Identifier: Apache-2.0

// Package reach connects a worker to the mover: it asks the device process for a connection when
// the first copy needs one, and gives it up when it is told to.
//
// The worker's loop owns a Reach. The device process is believed; after a takeover the new one may
// also answer what the previous one was asked, so that a connection comes twice.
package reach

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/moves"
)

// Copies are the copies that need the mover.
type Copies interface {
	Reaches() bool
	Connect(moves.Mover)
	Refused(why error)
	// Release gives up the connection, and says whether no copy needs it. gone says that the mover
	// answers no more.
	Release(gone bool) bool
}

// Reach is a worker's way to the mover.
type Reach struct {
	Copies Copies
	Dial   func(link.Half) (moves.Mover, error)
	Send   func(*handover.Message) error
}

// Need asks the device process for a connection to the mover. If that can't be sent, the loop
// notices that the connection has ended.
func (r *Reach) Need() { _ = r.Send(&handover.Message{Kind: handover.KindMover}) }

// Take takes the answer: a connection to the mover, which is ready, or the reason why there is
// none.
func (r *Reach) Take(m *handover.Message, e link.Half) {
	if !e.Whole() {
		e.Close()
		r.Copies.Refused(errors.New(m.Error))
		return
	}
	if r.Copies.Reaches() {
		e.Close() // it was asked for twice
		return
	}
	mover, err := r.Dial(e)
	if err != nil {
		r.Copies.Refused(fmt.Errorf("connect to the mover: %w", err))
		return
	}
	r.Copies.Connect(mover)
}

// Release gives up the connection, and says so, unless a copy needs it. gone says that the mover
// answers no more.
func (r *Reach) Release(gone bool) error {
	if !r.Copies.Release(gone) {
		return nil
	}
	return r.Send(&handover.Message{Kind: handover.KindRelease})
}
