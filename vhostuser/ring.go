// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/virtqueue"
)

// ring is what the front end has said about one queue.
type ring struct {
	size    uint16 // 0: not said
	addr    VringAddr
	hasAddr bool
	base    uint16
	kicked  bool // a kick message came since the ring was last taken away

	enabled, hasEnabled bool // what SET_VRING_ENABLE said, and whether it came

	kick, call, err *FD

	running bool
	used    uint64 // guest-physical address of the used ring, while it runs
}

// close closes the descriptors.
func (r *ring) close() {
	closeAll([]*FD{r.kick, r.call, r.err})
	r.kick, r.call, r.err = nil, nil, nil
}

// wanted reports whether everything has arrived that a ring needs to run, memory aside.
func (s *Session) wanted(r *ring) bool {
	enabled := r.enabled
	if !r.hasEnabled {
		enabled = s.features&FeatureProtocol == 0
	}
	return enabled && r.kicked && r.size != 0 && r.hasAddr
}

// settle starts a ring that has all it needs, and stops one that hasn't.
func (s *Session) settle(i int) error {
	r := &s.rings[i]
	switch want := s.wanted(r); {
	case want && !r.running:
		return s.start(i)
	case !want && r.running:
		return s.stop(i)
	}
	return nil
}

// start hands a ring to the device.
func (s *Session) start(i int) error {
	r := &s.rings[i]
	if s.features&FeatureVersion1 == 0 {
		return fmt.Errorf("%w: the driver didn't accept VIRTIO_F_VERSION_1", ErrProtocol)
	}
	q := QueueConfig{
		Size: r.size, Base: r.base, Features: s.features &^ transportFeatures,
		Kick: r.kick, Call: r.call, Err: r.err, Resumed: s.before.resuming,
	}
	eventIdx := q.EventIdx()
	for _, part := range []struct {
		name       string
		user, size uint64
		align      uint64
		gpa        *uint64
	}{
		{"descriptor table", r.addr.Desc, virtqueue.DescBytes(r.size), 16, &q.Desc},
		{"avail ring", r.addr.Avail, virtqueue.AvailBytes(r.size, eventIdx), 2, &q.Avail},
		{"used ring", r.addr.Used, virtqueue.UsedBytes(r.size, eventIdx), 4, &q.Used},
	} {
		gpa, err := s.memory.Translate(part.user, part.size)
		if err != nil {
			return fmt.Errorf("queue %d: %s: %w", i, part.name, err)
		}
		if gpa%part.align != 0 {
			return fmt.Errorf("%w: queue %d: %s at %#x is misaligned", ErrProtocol, i, part.name,
				gpa)
		}
		*part.gpa = gpa
	}
	if err := checkUsedLog(r.addr, q.Used); err != nil {
		return err
	}
	if err := s.recordFits(i, r.size); err != nil {
		return err
	}
	s.warnUnshared()
	if err := s.protect(func() error { return s.dev.StartQueue(i, q) }); err != nil {
		return fmt.Errorf("start queue %d: %w", i, err)
	}
	r.running, r.used = true, q.Used
	s.noteMissed()
	return nil
}

// warnUnshared says, once for each memory table, that the memory looks wrong. This isn't an error:
// a driver without an operating system may have written nothing yet.
func (s *Session) warnUnshared() {
	if s.warnedMem {
		return
	}
	s.warnedMem = true
	err := s.memory.CheckShared()
	if err != nil {
		s.log.WithError(err).Error("the guest's requests will not be seen")
	}
	if unshared := err != nil; unshared != s.shown.Unshared {
		s.shown.Unshared = unshared
		if s.progress != nil {
			s.progress(s.shown)
		}
	}
}

// stop takes a ring back from the device and notes where it stands.
func (s *Session) stop(i int) error {
	r := &s.rings[i]
	r.running = false
	err := s.protect(func() error {
		base, err := s.dev.StopQueue(i)
		if err == nil {
			r.base = base
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("stop queue %d: %w", i, err)
	}
	return nil
}

// abandon tells the device that it needn't finish what its queues began.
func (s *Session) abandon() error {
	s.dev.Abandon()
	return nil
}

// stopAll stops every running ring.
func (s *Session) stopAll() error {
	var errs []error
	for i := range s.rings {
		if s.rings[i].running {
			errs = append(errs, s.stop(i))
		}
	}
	return errors.Join(errs...)
}

// settleAll settles every ring after a change that concerns more than one. Errors go to the log and
// to the ring's error descriptor.
func (s *Session) settleAll() {
	for i := range s.rings {
		if err := s.settle(i); err != nil {
			s.log.WithError(err).Errorf("queue %d can't run", i)
			if s.rings[i].err != nil {
				_ = s.rings[i].err.Signal()
			}
		}
	}
}

// setMemory gives the device another table. unlike says that the new one doesn't contain the old,
// so that no ring may run meanwhile. commit is called after the device has accepted and before the
// rings are restarted: then the old descriptors can be closed.
func (s *Session) setMemory(mem *Memory, unlike bool, commit func()) error {
	if unlike {
		if err := s.stopAll(); err != nil {
			s.log.WithError(err).Error("stop queues for a memory change")
		}
	}
	s.leaveLog(mem)
	err := s.protect(func() error { return s.dev.SetMemory(mem) })
	if err == nil {
		s.memory, s.warnedMem = mem, false
		commit()
	}
	s.settleAll()
	if err != nil {
		return fmt.Errorf("set memory: %w", err)
	}
	return nil
}
