// SPDX-License-Identifier: Apache-2.0

// Package shares has the workers of a VM give one another what they share: memory and events, by
// secrets that the guest's processes hand on. A worker says under which secrets it shares
// something. Who asks by one gets it from that worker, through this process: no worker receives
// files from anybody else.
//
// # Who owns what
//
// A Broker has a lock, under which peers are told: they must not wait. It keeps secrets, and no
// files: a file is on its way to the one who asked for it, and closed here. What belongs to a peer
// goes when it has Ended.
//
// # Who may lie
//
// Peers. One that names what others share already isn't asked for it; only who was asked can give.
// Each may ask for one thing at a time, and is asked for a few at a time; one that doesn't answer
// costs the one who asks the time that Config allows. What it gives is as trustworthy as it is: the
// receiver checks it.
package shares

import (
	"sync"
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Peer is a worker.
type Peer interface {
	// Tell sends it a message, with files that stay the caller's, and doesn't wait.
	Tell(m *handover.Message, fds []int)
	// Ended says whether its process has ended: then it is no peer any more.
	Ended() bool
}

// Config is what a Broker needs.
type Config struct {
	Patience time.Duration // for a peer that was asked
	// Guard runs a part of this package, and survives its faults.
	Guard func(part string, f func()) bool
}

// Bounds on what peers can make this process keep.
const (
	mostOfOne = 1 << 13 // more secrets than a worker lets its guest have
	mostOfAll = 1 << 16
	mostAsked = 16 // of one, at a time: as many messages have room in its socket
	mostKind  = 16
	mostText  = 1 << 10
)

// Broker is a VM's.
type Broker struct {
	config Config

	mu      sync.Mutex // guards all that follows
	parties map[Peer]*party
	owners  map[handover.ShareName]*party
	asked   map[uint64]*ask   // of their owners, by number
	lost    map[*ask]struct{} // somebody who may have it hasn't said what it shares
	behind  int               // how many haven't
	last    uint64            // number
}

// party is a peer.
type party struct {
	peer   Peer
	shared map[handover.ShareName]struct{}
	behind bool   // it was taken over, and hasn't said what it shares
	asks   *ask   // nil: it asks for nothing
	owes   int    // answers
	queue  []*ask // which it will be told of when it owes fewer
}

// ask is what a peer asks for.
type ask struct {
	by     *party // nil: it doesn't wait any more
	turn   uint64 // the peer's number
	what   handover.ShareName
	owner  *party // nil: it is lost
	number uint64 // by which the owner was asked; 0: it wasn't
	late   *time.Timer
}

// New returns the Broker of a VM without workers.
func New(c Config) *Broker {
	return &Broker{config: c, parties: map[Peer]*party{}, owners: map[handover.ShareName]*party{},
		asked: map[uint64]*ask{}, lost: map[*ask]struct{}{}}
}

// Said takes what a peer says, and its files.
func (s *Broker) Said(p Peer, m *handover.Message, fds []int) {
	defer handover.CloseFiles(fds)
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.party(p)
	if x == nil {
		return
	}
	switch m.Kind {
	case handover.KindShare:
		s.share(x, m)
	case handover.KindUnshare:
		for _, what := range m.Shared {
			s.withdraw(x, what)
		}
	case handover.KindSeek:
		if len(m.Shared) == 1 {
			s.seek(x, m)
		}
	case handover.KindGiven:
		s.given(x, m, fds)
	}
}

// party is a peer's; nil: it has ended.
func (s *Broker) party(p Peer) *party {
	x := s.parties[p]
	if x == nil && !p.Ended() {
		x = &party{peer: p, shared: map[handover.ShareName]struct{}{}}
		s.parties[p] = x
	}
	return x
}

// TakenOver is told of a peer of another process before that says anything: what it shares isn't
// known yet.
func (s *Broker) TakenOver(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.party(p); x != nil && !x.behind {
		x.behind = true
		s.behind++
	}
}

// Ended forgets a peer.
func (s *Broker) Ended(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.parties[p]
	if x == nil {
		return
	}
	delete(s.parties, p)
	for what := range x.shared {
		s.withdraw(x, what)
	}
	s.forget(x.asks)
	for _, a := range x.queue {
		s.answer(a, nobody(), nil)
	}
	x.queue = nil
	for number, a := range s.asked {
		if a.owner == x {
			delete(s.asked, number)
			s.answer(a, nobody(), nil)
		}
	}
	s.complete(x)
}

// share notes what a peer shares, and tells it so: only then may its guest tell others of it, whose
// questions come by other connections.
func (s *Broker) share(x *party, m *handover.Message) {
	for _, what := range m.Shared {
		if s.owners[what] == nil && len(x.shared) < mostOfOne && len(s.owners) < mostOfAll &&
			len(what.Kind) <= mostKind {
			s.owners[what] = x
			x.shared[what] = struct{}{}
		}
	}
	if m.Over {
		s.complete(x)
	}
	s.lookAgain()
	if m.Turn != 0 {
		x.peer.Tell(&handover.Message{Kind: handover.KindShared, Turn: m.Turn}, nil)
	}
}

func (s *Broker) withdraw(x *party, what handover.ShareName) {
	if s.owners[what] == x {
		delete(s.owners, what)
		delete(x.shared, what)
	}
}

// complete says that it is known what a peer shares.
func (s *Broker) complete(x *party) {
	if x.behind {
		x.behind = false
		s.behind--
		s.lookAgain()
	}
}

// lookAgain looks for the owners of what is lost.
func (s *Broker) lookAgain() {
	for a := range s.lost {
		if s.owners[a.what] != nil || s.behind == 0 {
			delete(s.lost, a)
			a.late.Reset(s.config.Patience)
			s.find(a)
		}
	}
}

// seek asks for something, in place of what the peer asked for before.
func (s *Broker) seek(x *party, m *handover.Message) {
	s.forget(x.asks)
	a := &ask{by: x, turn: m.Turn, what: m.Shared[0]}
	x.asks = a
	a.late = time.AfterFunc(s.config.Patience, func() {
		s.config.Guard("a worker that shares", func() { s.isLate(a) })
	})
	s.find(a)
}

// find asks the owner of what a peer asks for, or has that wait.
func (s *Broker) find(a *ask) {
	switch a.owner = s.owners[a.what]; {
	case a.owner != nil && a.owner.owes < mostAsked:
		s.askFor(a)
	case a.owner != nil:
		a.owner.queue = append(a.owner.queue, a)
	case s.behind > 0:
		s.lost[a] = struct{}{}
		a.late.Stop() // what this process lacks is nobody's fault
	default:
		s.answer(a, nobody(), nil)
	}
}

// askFor tells the owner to give it.
func (s *Broker) askFor(a *ask) {
	s.last++
	a.number = s.last
	s.asked[a.number] = a
	a.owner.owes++
	a.owner.peer.Tell(&handover.Message{Kind: handover.KindGive, Turn: a.number,
		Shared: []handover.ShareName{a.what}}, nil)
}

// given hands on what a peer gives.
func (s *Broker) given(x *party, m *handover.Message, fds []int) {
	a := s.asked[m.Turn]
	if a == nil || a.owner != x {
		return
	}
	delete(s.asked, m.Turn)
	x.owes--
	found := &handover.Message{Kind: handover.KindFound, Text: m.Text, Files: m.Files}
	if m.Error != "" || m.Nobody || len(m.Text) > mostText {
		found, fds = nobody(), nil
	}
	s.answer(a, found, fds)
	if len(x.queue) > 0 {
		next := x.queue[0]
		x.queue = x.queue[1:]
		s.askFor(next)
	}
}

// nobody is the answer if nobody shares something.
func nobody() *handover.Message {
	return &handover.Message{Kind: handover.KindFound, Nobody: true}
}

// answer answers who asks, if it still does.
func (s *Broker) answer(a *ask, m *handover.Message, fds []int) {
	a.late.Stop()
	if a.by == nil {
		return
	}
	m.Turn = a.turn
	a.by.asks = nil
	a.by.peer.Tell(m, fds)
	a.by = nil
}

// forget is told that nobody waits for an answer; nil: there is none to wait for.
func (s *Broker) forget(a *ask) {
	if a == nil {
		return
	}
	a.late.Stop()
	a.by.asks, a.by = nil, nil
	delete(s.lost, a)
	s.leaveQueue(a)
}

// leaveQueue takes something of which its owner doesn't know yet from what it will be asked for.
func (s *Broker) leaveQueue(a *ask) {
	if a.owner == nil || a.number != 0 {
		return
	}
	for i, x := range a.owner.queue {
		if x == a {
			a.owner.queue = append(a.owner.queue[:i], a.owner.queue[i+1:]...)
			return
		}
	}
}

// isLate gives up to wait for an owner.
func (s *Broker) isLate(a *ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, lost := s.lost[a]; lost || a.by == nil {
		return
	}
	s.leaveQueue(a)
	s.answer(a, &handover.Message{Kind: handover.KindFound,
		Error: "the program that shares it does not answer"}, nil)
}
