// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"fmt"
	"time"

	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

// DirtyLogger is a Device that can tell which pages of the guest it has written to, so that the VM
// can be migrated. VHOST_F_LOG_ALL and LOG_SHMFD are offered for such a device only.
type DirtyLogger interface {
	Device

	// SetLog makes the device mark every write to guest memory in log: writes to rings and buffers,
	// by this process, by others and by hardware. This begins when SetLog returns nil, and lasts
	// until it is called with another log, or nil for none. It may be called while queues run. When
	// it returns, whatever the error, an earlier log isn't in use any more. StopQueue returns when
	// all that the queue has caused to be written is marked.
	SetLog(log *dirtylog.Log) error
}

// errNoLog refuses what relies on a log of dirty pages that isn't complete.
var errNoLog = errors.New("the log of dirty pages is not complete")

// dirtyLog is what the front end has said about the log of dirty pages.
type dirtyLog struct {
	log     *dirtylog.Log // from SET_LOG_BASE; nil: none
	fd      *FD           // of log; nil: there is none
	inForce *dirtylog.Log // what the device has: log, or nil
	missed  bool          // pages may have been written to without one that there should be
	call    *FD           // from SET_LOG_FD: to signal that bits may have been set
	endTick func()        // ends tick; nil: it doesn't run
}

// check returns an error if pages were written to that are missing from the log.
func (d *dirtyLog) check() error {
	if d.missed || d.log != nil && d.log.Lost() {
		return errNoLog
	}
	return nil
}

// setLogBase takes the bitmap. QEMU ignores the answer: after a log was refused, the device's state
// can't be saved.
func (s *Session) setLogBase(m *Message) ([]byte, error) {
	if err := s.takeLog(m); err != nil {
		s.dirty.missed = true
		return nil, err
	}
	return word(0), nil
}

func (s *Session) takeLog(m *Message) error {
	if len(m.FDs) != 1 {
		return fmt.Errorf("%w: no descriptor", ErrProtocol)
	}
	size, offset, err := decodeLog(m.Payload)
	if err != nil {
		return err
	}
	log, err := dirtylog.Open(m.FDs[0].Int(), offset, size)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if err := covers(log, s.memory); err != nil {
		return errors.Join(err, log.Close())
	}
	old := s.dirty.log
	_ = s.dirty.fd.Close()
	s.dirty.log, s.dirty.fd = log, m.takeFD()
	err = s.settleLog()
	if err != nil {
		_ = s.dirty.fd.Close()
		s.dirty.log, s.dirty.fd = nil, nil
		_ = s.settleLog() // the device has none of them, whatever it says
		err = errors.Join(err, log.Close())
	}
	if old != nil {
		err = errors.Join(err, old.Close())
	}
	return err
}

// covers reports whether a log has a bit for each page of a memory.
func covers(log *dirtylog.Log, mem *Memory) error {
	for _, r := range mem.regions {
		if !log.Covers(r.GuestAddr, r.Size) {
			return fmt.Errorf("%w: the log of %d bytes doesn't cover the region of %d bytes at %#x",
				ErrProtocol, log.Size(), r.Size, r.GuestAddr)
		}
	}
	return nil
}

// settleLog gives the device the log from SET_LOG_BASE while VHOST_F_LOG_ALL is accepted, otherwise
// none.
func (s *Session) settleLog() error {
	dev, ok := s.dev.(DirtyLogger)
	if !ok {
		return nil
	}
	var want *dirtylog.Log
	if s.features&FeatureLogAll != 0 {
		want = s.dirty.log
	}
	if want == s.dirty.inForce {
		s.noteMissed()
		return nil
	}
	if want != nil {
		if err := covers(want, s.memory); err != nil {
			s.noteMissed()
			return err
		}
	}
	s.dirty.inForce = want
	err := s.protect(func() error { return dev.SetLog(want) })
	s.tick()
	if err != nil {
		s.dirty.missed = true
		return fmt.Errorf("set log: %w", err)
	}
	s.noteMissed()
	return nil
}

// noteMissed notes whether there are writes that should be logged and aren't.
func (s *Session) noteMissed() {
	if s.features&FeatureLogAll == 0 || s.dirty.inForce != nil {
		return
	}
	for i := range s.rings {
		s.dirty.missed = s.dirty.missed || s.rings[i].running
	}
}

// setLogAll turns VHOST_F_LOG_ALL, which may change while rings run, unlike other features.
func (s *Session) setLogAll(features uint64) error {
	s.features = s.features&^FeatureLogAll | features&FeatureLogAll
	if s.features&FeatureLogAll == 0 {
		s.dirty.missed = false
	}
	return s.settleLog()
}

// leaveLog takes the log from the device if it has no bits for part of the new memory. A correct
// front end has sent a larger log before, or sends it before the rings run.
func (s *Session) leaveLog(mem *Memory) {
	if s.dirty.inForce == nil || covers(s.dirty.inForce, mem) == nil {
		return
	}
	s.log.Warn("the log of dirty pages is too small for the new memory")
	old := s.dirty.log
	_ = s.dirty.fd.Close()
	s.dirty.log, s.dirty.fd = nil, nil
	if err := s.settleLog(); err != nil {
		s.log.WithError(err).Error("end the log")
	}
	_ = old.Close()
}

// setLogFD takes the descriptor that is signalled when bits may have been set.
func (s *Session) setLogFD(m *Message) ([]byte, error) {
	if len(m.FDs) != 1 {
		return nil, fmt.Errorf("%w: no descriptor", ErrProtocol)
	}
	if err := prepareEvent(m.FDs[0]); err != nil {
		return nil, err
	}
	s.stopTick()
	_ = s.dirty.call.Close()
	s.dirty.call = m.takeFD()
	s.tick()
	return nil, nil
}

// logTick is how often the front end is told that bits may have been set. The signals aren't
// counted.
const logTick = 100 * time.Millisecond

// tick begins or ends signalling, as the log asks.
func (s *Session) tick() {
	s.stopTick()
	if s.dirty.inForce == nil || s.dirty.call == nil {
		return
	}
	call, err := s.dirty.call.Dup()
	if err != nil {
		return
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	s.dirty.endTick = func() { close(quit); <-ended }
	go func() {
		defer close(ended)
		defer func() { _ = call.Close() }()
		ticker := time.NewTicker(logTick)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_ = call.Signal()
			case <-quit:
				_ = call.Signal()
				return
			}
		}
	}()
}

func (s *Session) stopTick() {
	if s.dirty.endTick != nil {
		s.dirty.endTick()
		s.dirty.endTick = nil
	}
}

// closeLog ends the log, which the device must no longer have.
func (s *Session) closeLog() {
	s.stopTick()
	closeAll([]*FD{s.dirty.call, s.dirty.fd})
	if s.dirty.log != nil {
		_ = s.dirty.log.Close()
	}
	s.dirty = dirtyLog{}
}

// checkUsedLog refuses a ring that is to be logged at another address than its own: that would need
// an IOMMU, which isn't offered.
func checkUsedLog(a VringAddr, used uint64) error {
	if a.Flags&VringLog != 0 && a.Log != used {
		return fmt.Errorf("%w: queue %d: the used ring is at %#x and is to be logged at %#x",
			ErrProtocol, a.Index, used, a.Log)
	}
	return nil
}

// decodeLog reads the payload of SET_LOG_BASE.
func decodeLog(b []byte) (size, offset uint64, err error) {
	if len(b) != 16 {
		return 0, 0, fmt.Errorf("%w: log of %d bytes", ErrProtocol, len(b))
	}
	return wire.Uint64(b), wire.Uint64(b[8:]), nil
}

// AppendLog appends the payload of SET_LOG_BASE.
func AppendLog(b []byte, size, offset uint64) []byte {
	return wire.AppendUint64(wire.AppendUint64(b, size), offset)
}
