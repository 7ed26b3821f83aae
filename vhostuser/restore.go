// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"fmt"
	"net"

	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// Restore makes a session that goes on where a session of another process stood. That process may
// have crashed while it wrote the snapshot, so each field is checked as if the front end had just
// sent it. On success the socket and the descriptors are the session's; otherwise nothing has
// changed, and they stay the caller's. The device is told when Run begins.
//
// A message that the other session had read, or was about to read, is served now, and answered, and
// an answer that wasn't sent is. Two things are lost: an answer with descriptors, if the process
// ended between the last Keep and the answer, since it isn't sent again: the front end would take
// one answer too many for that to its next message; and a message that came in pieces, if the
// process ended among them. A transfer of the device's state
// that was under way has failed. A log of dirty pages that was in force counts as incomplete: the
// last writes may be missing.
func Restore(sock *net.UnixConn, dev Device, opts Options, from *Snapshot) (*Session, error) {
	s, err := New(sock, dev, opts)
	if err != nil {
		return nil, err
	}
	if err := s.take(from); err != nil {
		return nil, fmt.Errorf("restore session: %w", err)
	}
	s.before.restored = true
	return s, nil
}

// earlier is what a session has of the one before it, from whose snapshot it was made.
type earlier struct {
	restored bool     // there was one; the device must be told
	resuming bool     // it is being told: rings that start ran before
	pending  *Message // to be served first; nil: none
	unread   bool     // that may still be in the socket
	unsent   *FD      // answers; nil: none
}

// take checks a snapshot and makes it the session's.
func (s *Session) take(p *Snapshot) error {
	if extra := p.Features &^ s.offered; extra != 0 {
		return fmt.Errorf("%w: features %#x aren't offered", ErrSnapshot, extra)
	}
	if extra := p.Protocol &^ s.protocols; extra != 0 {
		return fmt.Errorf("%w: protocol features %#x aren't offered", ErrSnapshot, extra)
	}
	if len(p.Rings) != len(s.rings) {
		return fmt.Errorf("%w: %d rings, the device has %d queues", ErrSnapshot, len(p.Rings),
			len(s.rings))
	}
	if p.Shown.Queues < 0 || p.Shown.Queues > MaxQueues {
		return fmt.Errorf("%w: %d queues were shown", ErrSnapshot, p.Shown.Queues)
	}
	for i := range p.Rings {
		if err := s.checkRing(i, &p.Rings[i]); err != nil {
			return fmt.Errorf("%w: ring %d: %w", ErrSnapshot, i, err)
		}
	}
	if m := p.Pending; m != nil && (len(m.Payload) > maxPayload || len(m.FDs) > MaxFDs) {
		return fmt.Errorf("%w: message of %d bytes with %d descriptors", ErrSnapshot,
			len(m.Payload), len(m.FDs))
	}
	if p.Channel != nil {
		if err := prepareChannel(p.Channel); err != nil {
			return fmt.Errorf("%w: %w", ErrSnapshot, err)
		}
	}
	if len(p.Memory) > MaxMemSlots {
		return fmt.Errorf("%w: %d regions", ErrSnapshot, len(p.Memory))
	}
	mem, err := NewMemory(p.Memory)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	log, err := s.openLog(p, mem)
	if err != nil {
		return fmt.Errorf("%w: log: %w", ErrSnapshot, err)
	}
	record, err := s.openRecord(p)
	if err != nil {
		if log != nil {
			_ = log.Close()
		}
		return fmt.Errorf("%w: record: %w", ErrSnapshot, err)
	}
	s.adopt(p, mem, log, record)
	return nil
}

// checkRing refuses a ring that no front end could have set up.
func (s *Session) checkRing(i int, r *RingSnapshot) error {
	switch {
	case r.Size > virtqueue.MaxSize || r.Size&(r.Size-1) != 0:
		return fmt.Errorf("%d entries, want a power of two up to %d", r.Size, virtqueue.MaxSize)
	case r.Enabled && !r.HasEnabled:
		return errors.New("enabled by nobody")
	case !r.HasAddr && r.Addr != (VringAddr{}):
		return errors.New("addresses that were not said")
	}
	if r.HasAddr {
		if r.Addr.Index != uint32(i) {
			return fmt.Errorf("the addresses are of ring %d", r.Addr.Index)
		}
		if err := s.checkAddr(r.Addr); err != nil {
			return err
		}
	}
	for _, fd := range []*FD{r.Kick, r.Call, r.Err} {
		if fd == nil {
			continue
		}
		if err := prepareEvent(fd); err != nil {
			return err
		}
	}
	return nil
}

// openLog maps the log of dirty pages, if there is one.
func (s *Session) openLog(p *Snapshot, mem *Memory) (*dirtylog.Log, error) {
	if p.LogCall != nil {
		if err := prepareEvent(p.LogCall); err != nil {
			return nil, err
		}
	}
	if _, ok := s.dev.(DirtyLogger); !ok && (p.Log.FD != nil || p.LogCall != nil) {
		return nil, errors.New("the device keeps no log of dirty pages")
	}
	if p.Log.FD == nil {
		return nil, nil
	}
	log, err := dirtylog.Open(p.Log.FD.Int(), p.Log.Offset, p.Log.Size)
	if err != nil {
		return nil, err
	}
	if err := covers(log, mem); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return log, nil
}

// openRecord maps the record of what is in flight, if there is one.
func (s *Session) openRecord(p *Snapshot) (*inflight.Region, error) {
	if p.RecordFD == nil {
		return nil, nil
	}
	if _, ok := s.dev.(InFlightTracker); !ok {
		return nil, errors.New("the device keeps no record of what is in flight")
	}
	shape, err := s.shapeOf(p.Record)
	if err != nil {
		return nil, err
	}
	return inflight.Open(p.RecordFD.Int(), p.Record.Offset, p.Record.Size, shape)
}

// adopt takes what was checked. It can't fail.
func (s *Session) adopt(
	p *Snapshot, mem *Memory, log *dirtylog.Log, record *inflight.Region,
) {
	s.features, s.protocol, s.shown, s.memory = p.Features, p.Protocol, p.Shown, mem
	for i, r := range p.Rings {
		s.rings[i] = ring{
			size: r.Size, addr: r.Addr, hasAddr: r.HasAddr, base: r.Base, kicked: r.Kicked,
			enabled: r.Enabled, hasEnabled: r.HasEnabled, kick: r.Kick, call: r.Call, err: r.Err,
		}
	}
	s.dirty = dirtyLog{log: log, fd: p.Log.FD, call: p.LogCall,
		missed: p.LogMissed || p.Features&FeatureLogAll != 0}
	s.record = keptRecord{record, p.Record, p.RecordFD}
	s.setChannel(p.Channel)
	s.before = earlier{pending: p.Pending, unread: p.Unread, unsent: p.Outbox}
}

// sendUnsent sends the answer that the session before this one had ready. If that hadn't told of
// it, its message is still pending: then it is served, and answered, again.
func (s *Session) sendUnsent() error {
	defer func() { _ = s.before.unsent.Close() }()
	if s.before.unsent == nil || s.before.pending != nil {
		return nil
	}
	return s.conn.sendRest(s.before.unsent)
}

// servePending serves the message at which the session before this one ended. How much a transfer
// of the device's state had moved isn't known.
func (s *Session) servePending() error {
	m := s.before.pending
	if m == nil {
		return nil
	}
	s.before.pending = nil
	if s.before.unread && s.conn.Has(m) {
		closeAll(m.takeFDs())
		return nil // it will be read
	}
	var refused error
	if m.Request == SetDeviceStateFD {
		refused = fmt.Errorf("%w: the process that began it is gone", errTransfer)
	}
	return s.serve(m, refused)
}

// resume tells the device what the earlier session had told its own.
func (s *Session) resume() error {
	if s.features != 0 {
		if err := s.protect(func() error {
			return s.dev.SetFeatures(s.features &^ transportFeatures)
		}); err != nil {
			return fmt.Errorf("set features: %w", err)
		}
	}
	if len(s.memory.regions) > 0 {
		if err := s.protect(func() error { return s.dev.SetMemory(s.memory) }); err != nil {
			return fmt.Errorf("set memory: %w", err)
		}
	}
	if dev, ok := s.dev.(InFlightTracker); ok && s.record.region != nil {
		if err := s.protect(func() error { return dev.SetInFlight(s.record.region) }); err != nil {
			return fmt.Errorf("set the record of what is in flight: %w", err)
		}
	}
	if err := s.settleLog(); err != nil {
		s.log.WithError(err).Error("log dirty pages")
	}
	s.before.resuming = true
	s.settleAll()
	s.before.resuming = false
	if s.progress != nil {
		_ = s.protect(func() error { s.progress(s.shown); return nil })
	}
	return nil
}
