// SPDX-License-Identifier: Apache-2.0

package vhostuser

// Snapshot is what a front end has told a session: all that a session of a later process needs to
// go on with the same socket. It is taken between two messages, or while one is served. A snapshot
// that Options.Keep gets has the session's own descriptors, which are good until Keep returns.
type Snapshot struct {
	Features, Protocol uint64 // that were accepted
	Memory             []Region
	Rings              []RingSnapshot

	Channel   *FD      // of SET_BACKEND_REQ_FD; nil: none
	Log       FileSpan // of dirty pages
	LogCall   *FD      // of SET_LOG_FD; nil: none
	LogMissed bool     // pages may be missing from the log
	Record    InFlight // of what is in flight
	RecordFD  *FD      // its file; nil: no record is kept

	Shown Shown

	// Pending is a message that has no effect on the rest yet; nil: none. Unread: it may still be
	// in the socket, too.
	Pending *Message
	Unread  bool

	// Outbox is the file through which answers go; nil: none did. If no message is pending, what
	// is behind its position is an answer that wasn't sent.
	Outbox *FD
}

// FileSpan is a part of a file. Without a file, there is none.
type FileSpan struct {
	Size, Offset uint64
	FD           *FD
}

// RingSnapshot is what was said about one ring.
type RingSnapshot struct {
	Size uint16    // 0: not said
	Addr VringAddr // in use if HasAddr
	// Base is where the ring was to begin. If it has run since, whoever restores it has to know
	// where it stands.
	Base                                 uint16
	HasAddr, Kicked, Enabled, HasEnabled bool
	Kick, Call, Err                      *FD // nil: none
}

// FDs returns the descriptors in a fixed order, with nil for each that isn't there: the memory's,
// kick, call and error of each ring, the channel, the log, the log's call, the record, the
// message's, and, only if there is one, the outbox.
func (p *Snapshot) FDs() []*FD {
	var out []*FD
	for _, f := range p.places() {
		out = append(out, *f)
	}
	return out
}

// places returns where the descriptors are.
func (p *Snapshot) places() []**FD {
	var out []**FD
	for i := range p.Memory {
		out = append(out, &p.Memory[i].FD)
	}
	for i := range p.Rings {
		r := &p.Rings[i]
		out = append(out, &r.Kick, &r.Call, &r.Err)
	}
	out = append(out, &p.Channel, &p.Log.FD, &p.LogCall, &p.RecordFD)
	if p.Pending != nil {
		for i := range p.Pending.FDs {
			out = append(out, &p.Pending.FDs[i])
		}
	}
	if p.Outbox != nil {
		out = append(out, &p.Outbox)
	}
	return out
}

// Close closes the descriptors.
func (p *Snapshot) Close() { closeAll(p.FDs()) }

// keepNow calls Keep with the session as it is now: with a message that isn't served yet, and may
// be unread, or, if that is nil, between two messages.
func (s *Session) keepNow(pending *Message, unread bool) {
	if s.keep == nil {
		return
	}
	p := s.snapshot()
	p.Pending, p.Unread = pending, unread
	_ = s.protect(func() error { s.keep(p); return nil })
}

// wasServed calls Served.
func (s *Session) wasServed() {
	if s.served != nil {
		_ = s.protect(func() error { s.served(); return nil })
	}
}

// snapshot describes the session as it is now, with its own descriptors.
func (s *Session) snapshot() *Snapshot {
	p := &Snapshot{
		Features: s.features, Protocol: s.protocol, Memory: s.memory.Regions(),
		Rings:   make([]RingSnapshot, len(s.rings)),
		LogCall: s.dirty.call, LogMissed: s.dirty.missed,
		Record: s.record.at, RecordFD: s.record.fd, Shown: s.shown, Outbox: s.outbox.fd,
	}
	for i, r := range s.rings {
		p.Rings[i] = RingSnapshot{
			Size: r.size, Addr: r.addr, Base: r.base, HasAddr: r.hasAddr, Kicked: r.kicked,
			Enabled: r.enabled, HasEnabled: r.hasEnabled, Kick: r.kick, Call: r.call, Err: r.err,
		}
	}
	if log := s.dirty.log; log != nil {
		p.Log = FileSpan{log.Size(), log.Offset(), s.dirty.fd}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Channel = s.channel
	return p
}
