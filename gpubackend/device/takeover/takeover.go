// SPDX-License-Identifier: Apache-2.0

// Package takeover lets a device process go on with the children of the previous one: it finds what
// was left of each, and leaves the same to the next one.
//
// A program whose worker is gone, and that another one was to serve from its beginning, is found,
// too.
//
// # Who owns what
//
// A child stays as it is: the other end of its connection is kept (package remains), and a worker
// notes its queue's position in memory that is kept, too. A list says which child is which (package
// roster). The caller owns those that are found; those of which something is missing are to end.
//
// # Who may lie
//
// The previous process, perhaps because a guest took it over: what it left is checked when it is
// opened. The starter process says whether a child is alive: it has the kernel's descriptors of it.
//
// # Concurrency
//
// Find is called once, before the others. These may be called from anywhere; those of nil Notes do
// nothing, as without a keeper.
package takeover

import (
	"fmt"
	"os"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/roster"
)

// Left are the processes that the previous device process has left.
type Left struct {
	Workers []Worker
	Cold    []roster.Child  // workers that are gone; of their programs others are to begin cold
	Mover   *Mover          // nil: none goes on
	Rest    []child.Process // they are to end
}

// Worker is a worker that serves a channel.
type Worker struct {
	roster.Child
	Proc  child.Process
	Conn  *handover.Conn
	State *handover.State
	// Listener is that by which its mappings are decided on; -1: it doesn't ask.
	Listener int
}

// Mover is the VM's.
type Mover struct {
	Proc child.Process
	Conn *handover.Conn
}

// Notes are what is left to the next device process.
type Notes struct {
	remains *remains.Remains
	roster  *roster.Roster
	before  []roster.Child
	objects objects

	mu     sync.Mutex
	places map[remains.Purpose]uint32 // whose connection is kept there, by number; guarded by mu
}

// Open takes the list of the previous process. Without remains there are no Notes.
func Open(r *remains.Remains) (*Notes, error) {
	if r == nil {
		return nil, nil
	}
	list, before, err := roster.New(r)
	if err != nil {
		return nil, err
	}
	return &Notes{remains: r, roster: list, before: before,
		places: map[remains.Purpose]uint32{}}, nil
}

// Close ends the noting.
func (n *Notes) Close() {
	if n != nil {
		n.roster.Close()
		n.objects.close()
	}
}

// numbered is a process that the starter process knows by a number.
type numbered interface{ Number() uint32 }

// numberOf is that number; false: it has none, so nobody can take it over.
func numberOf(p child.Process) (uint32, bool) {
	n, ok := p.(numbered)
	if !ok {
		return 0, false
	}
	return n.Number(), true
}

// Find finds, among the processes that still run, those that serve a VM with that many channels.
func (n *Notes) Find(running []child.Process, channels int, log *logrus.Entry) (left Left) {
	if n == nil {
		return Left{Rest: running}
	}
	alive := map[uint32]child.Process{}
	for _, p := range running {
		if number, ok := numberOf(p); ok {
			alive[number] = p
		} else {
			left.Rest = append(left.Rest, p)
		}
	}
	for _, c := range n.before {
		p := alive[c.Number]
		switch gone := p == nil || c.Cold; {
		case c.Channel >= channels, gone && !n.awaitsCold(c):
			n.forget(c)
			continue
		case gone:
			c.Cold = true
			n.leave(c)
			left.Cold = append(left.Cold, c)
			continue
		}
		if err := n.find(c, p, &left); err != nil {
			log.WithError(err).WithField("program", c.Name).
				Warn("take over a process: it ends instead")
			n.forget(c)
			continue
		}
		n.places[placeOf(c)] = c.Number
		delete(alive, c.Number)
	}
	for _, p := range alive {
		left.Rest = append(left.Rest, p)
	}
	return left
}

// find takes over what was left of a child.
func (n *Notes) find(c roster.Child, p child.Process, left *Left) error {
	fd, kept := n.remains.Take(placeOf(c))
	if !kept {
		return fmt.Errorf("its connection isn't kept")
	}
	conn, err := handover.NewConn(os.NewFile(uintptr(fd), "control"))
	if err != nil {
		return err
	}
	if c.Role == roster.Mover {
		left.Mover = &Mover{p, conn}
		return nil
	}
	var state *handover.State
	if fd, kept = n.remains.Take(remains.State(c.Channel)); !kept {
		err = fmt.Errorf("what it notes of its queue isn't kept")
	} else {
		state, err = handover.AdoptState(fd)
	}
	if err != nil {
		_ = conn.Close()
		return err
	}
	listener, kept := n.remains.Take(remains.Listener(c.Channel))
	if !kept {
		listener = -1
	}
	left.Workers = append(left.Workers, Worker{c, p, conn, state, listener})
	return nil
}

// awaitsCold says whether a child that is gone was a worker which has done nothing for its program,
// so that another one is to begin.
func (n *Notes) awaitsCold(c roster.Child) (cold bool) {
	if c.Role != roster.Worker {
		return false
	}
	fd, kept := n.remains.Look(remains.State(c.Channel))
	if !kept {
		return false
	}
	state, err := handover.AdoptState(fd)
	if err != nil {
		return false
	}
	defer state.Close()
	return state.AskedCold() && state.ReturnedNone(c.Base)
}

// leave has a child stay noted, with the notes of its queue, until one that begins cold is.
func (n *Notes) leave(c roster.Child) {
	n.close(remains.State(c.Channel))
	n.close(placeOf(c))
	n.roster.Began(c)
	n.places[placeOf(c)] = c.Number
}

// close closes what was left at a place, which stays kept.
func (n *Notes) close(p remains.Purpose) {
	if fd, left := n.remains.Take(p); left {
		handover.CloseFiles([]int{fd})
	}
}

// forget drops what was left of a child that doesn't go on.
func (n *Notes) forget(c roster.Child) {
	n.roster.Ended(c.Number)
	n.close(placeOf(c))
	n.remains.Drop(placeOf(c))
	if c.Role == roster.Worker {
		n.remains.Drop(remains.Listener(c.Channel))
	}
}

// placeOf is where a child's connection is kept.
func placeOf(c roster.Child) remains.Purpose {
	if c.Role == roster.Mover {
		return remains.Mover
	}
	return remains.Worker(c.Channel)
}

// serves notes that a child serves now, and its connection. Its number is filled in.
func (n *Notes) serves(c roster.Child, p child.Process, conn *child.Conn) {
	number, ok := numberOf(p)
	if n == nil || !ok {
		return
	}
	c.Number = number
	n.mu.Lock()
	defer n.mu.Unlock()
	place := placeOf(c)
	conn.WithFD(func(fd int) { n.remains.Keep(place, fd) })
	n.places[place] = number
	n.roster.Began(c)
}

// ServesWorker notes a worker that serves its channel now, or is about to in the place of one that
// is gone, and where its queue began.
func (n *Notes) ServesWorker(w *workers.Worker, entry int, base uint16) {
	p := w.Program()
	n.listens(w.Channel(), w.WithListener)
	n.serves(roster.Child{Role: roster.Worker, Channel: w.Channel(), PID: p.PID, Name: p.Name,
		Entry: entry, Base: base, Ahead: w.Ahead}, w.Process(), w.Conn())
}

// listens notes by what the mappings of a channel's worker are decided on, in place of its
// predecessor's. with calls its argument if there is something.
func (n *Notes) listens(channel int, with func(f func(fd int))) {
	if n == nil {
		return
	}
	place, is := remains.Listener(channel), false
	with(func(fd int) {
		n.remains.Keep(place, fd)
		is = true
	})
	if !is {
		n.remains.Drop(place)
	}
}

// ServesMover notes a mover.
func (n *Notes) ServesMover(p child.Process, conn *child.Conn) {
	n.serves(roster.Child{Role: roster.Mover}, p, conn)
}

// AwaitsCold notes that a worker has ended, and that another one is to begin in its place.
func (n *Notes) AwaitsCold(p child.Process) {
	if number, ok := numberOf(p); ok && n != nil {
		n.roster.AwaitsCold(number)
	}
}

// Ended drops what was noted of a process that has ended.
func (n *Notes) Ended(p child.Process) {
	number, ok := numberOf(p)
	if n == nil || !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for place, of := range n.places {
		if of == number {
			n.roster.Ended(number)
			n.remains.Drop(place)
			delete(n.places, place)
			if channel, is := remains.ChannelOf(place); is {
				n.remains.Drop(remains.Listener(channel))
			}
			return
		}
	}
}
