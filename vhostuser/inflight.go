// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/virtqueue/inflight"
)

// InFlightTracker is a Device whose queues keep a record of what they have in flight, so that
// another device can go on after a crash. INFLIGHT_SHMFD is offered for such a device only.
type InFlightTracker interface {
	Device

	// SetInFlight gives the record that the queues are to keep, or nil for none. An earlier device
	// may have written it. Region.Queue(i) is the record of queue i, if there is one. No queue
	// runs. When it returns, whatever the error, an earlier record isn't in use any more.
	SetInFlight(record *inflight.Region) error
}

// The payload of GET_INFLIGHT_FD and SET_INFLIGHT_FD: 20 bytes by the specification, 24 with the
// padding that C gives it.
const (
	inFlightMin = 20
	inFlightMax = 24
)

// InFlight is that payload.
type InFlight struct {
	Size, Offset uint64 // of the record in its file
	Queues       uint16
	QueueSize    uint16
}

// AppendTo appends the payload, with its padding.
func (v InFlight) AppendTo(b []byte) []byte {
	b = wire.AppendUint64(wire.AppendUint64(b, v.Size), v.Offset)
	b = wire.AppendUint16(wire.AppendUint16(b, v.Queues), v.QueueSize)
	return append(b, 0, 0, 0, 0)
}

func decodeInFlight(b []byte) (InFlight, error) {
	if len(b) != inFlightMin && len(b) != inFlightMax {
		return InFlight{}, fmt.Errorf("%w: in-flight description of %d bytes", ErrProtocol, len(b))
	}
	return InFlight{
		Size: wire.Uint64(b), Offset: wire.Uint64(b[8:]),
		Queues: wire.Uint16(b[16:]), QueueSize: wire.Uint16(b[18:]),
	}, nil
}

// shapeOf returns which queues a front end wants recorded, after a check that there are so many.
func (s *Session) shapeOf(v InFlight) (inflight.Shape, error) {
	if int(v.Queues) > len(s.rings) {
		return inflight.Shape{}, fmt.Errorf("%w: %d queues of %d", ErrProtocol, v.Queues,
			len(s.rings))
	}
	return inflight.Shape{Queues: int(v.Queues), Size: v.QueueSize}, nil
}

// getInFlightFD makes a new record. It is used once the front end has given it back.
func (s *Session) getInFlightFD(m *Message) ([]byte, error) {
	v, err := decodeInFlight(m.Payload)
	if err != nil {
		return nil, err
	}
	shape, err := s.shapeOf(v)
	if err != nil {
		return nil, err
	}
	fd, err := inflight.Create(shape)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	s.enclosed = NewFD(fd)
	v.Size, v.Offset = shape.Bytes(), 0
	return v.AppendTo(nil)[:len(m.Payload)], nil
}

// setInFlightFD takes the record that is to be kept.
func (s *Session) setInFlightFD(m *Message) ([]byte, error) {
	v, err := decodeInFlight(m.Payload)
	if err != nil {
		return nil, err
	}
	if len(m.FDs) != 1 {
		return nil, fmt.Errorf("%w: no descriptor", ErrProtocol)
	}
	for i := range s.rings {
		if s.rings[i].running {
			return nil, fmt.Errorf("change the record of what is in flight: queue %d: %w", i,
				ErrRunning)
		}
	}
	shape, err := s.shapeOf(v)
	if err != nil {
		return nil, err
	}
	record, err := inflight.Open(m.FDs[0].Int(), v.Offset, v.Size, shape)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if err := s.keepRecord(record); err != nil || s.record.region == nil {
		return nil, err
	}
	s.record.at, s.record.fd = v, m.takeFD()
	return nil, nil
}

// keptRecord is the record of what is in flight, and where it is kept.
type keptRecord struct {
	region *inflight.Region // nil: none is kept
	at     InFlight         // in fd
	fd     *FD              // nil: there is no record
}

// keepRecord replaces the device's record by another one, or by none.
func (s *Session) keepRecord(record *inflight.Region) error {
	dev, ok := s.dev.(InFlightTracker)
	if !ok || record == nil && s.record.region == nil {
		return nil
	}
	err := s.protect(func() error { return dev.SetInFlight(record) })
	old := s.record.region
	_ = s.record.fd.Close()
	s.record = keptRecord{region: record}
	if err != nil && record != nil {
		s.record.region = nil
		err = errors.Join(err, s.protect(func() error { return dev.SetInFlight(nil) }),
			record.Close())
	}
	if err = errors.Join(err, old.Close()); err != nil {
		return fmt.Errorf("set the record of what is in flight: %w", err)
	}
	return nil
}

// recordFits checks that the record has room for a ring that is about to run.
func (s *Session) recordFits(i int, size uint16) error {
	if q := s.record.region.Queue(i); q != nil && size > q.Size() {
		return fmt.Errorf("%w: queue %d has %d entries, the record of what is in flight %d",
			ErrProtocol, i, size, q.Size())
	}
	return nil
}
