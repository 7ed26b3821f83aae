// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ringFD reads a payload that names a ring and says whether a descriptor comes along, and takes the
// descriptor. Without an error, a nil FD means that the front end sent none on purpose.
func (s *Session) ringFD(m *Message) (int, *ring, *FD, error) {
	w, err := decodeWord(m.Payload)
	if err != nil {
		return 0, nil, nil, err
	}
	if w>>9 != 0 {
		return 0, nil, nil, fmt.Errorf("%w: reserved bits in %#x", ErrProtocol, w)
	}
	i := w & (noFD - 1)
	r, err := s.ring(i)
	if err != nil {
		return 0, nil, nil, err
	}
	if none := w&noFD != 0; none != (len(m.FDs) == 0) {
		return 0, nil, nil, fmt.Errorf("%w: %d descriptors with %#x", ErrProtocol, len(m.FDs), w)
	}
	if len(m.FDs) == 0 {
		return int(i), r, nil, nil
	}
	if err := prepareEvent(m.FDs[0]); err != nil {
		return 0, nil, nil, fmt.Errorf("queue %d: %w", i, err)
	}
	return int(i), r, m.takeFD(), nil
}

// setVringKick changes the kick descriptor, and says that the ring may start. A running ring is
// restarted where it stands.
func (s *Session) setVringKick(m *Message) ([]byte, error) {
	i, r, fd, err := s.ringFD(m)
	if err != nil {
		return nil, err
	}
	if r.running {
		if err := s.stop(i); err != nil {
			s.log.WithError(err).Error("the queue may have lost requests")
		}
	}
	_ = r.kick.Close()
	r.kick, r.kicked = fd, true
	return nil, s.settle(i)
}

func (s *Session) setVringCall(m *Message) ([]byte, error) {
	i, r, fd, err := s.ringFD(m)
	if err != nil {
		return nil, err
	}
	if r.running {
		if err := s.protect(func() error { return s.dev.SetCall(i, fd) }); err != nil {
			_ = fd.Close()
			return nil, fmt.Errorf("change call descriptor of queue %d: %w", i, err)
		}
	}
	_ = r.call.Close()
	r.call = fd
	return nil, nil
}

// setVringErr changes the error descriptor. The device learns of it when the ring is next started:
// no front end changes it while one runs. The old one stays open until then.
func (s *Session) setVringErr(m *Message) ([]byte, error) {
	i, r, fd, err := s.ringFD(m)
	if err != nil {
		return nil, err
	}
	if r.running {
		_ = fd.Close()
		return nil, fmt.Errorf("change error descriptor: queue %d: %w", i, ErrRunning)
	}
	_ = r.err.Close()
	r.err = fd
	return nil, nil
}

// setBackendReqFD takes the channel on which the back end sends requests: a socket, or with UML a
// pipe.
func (s *Session) setBackendReqFD(m *Message) ([]byte, error) {
	if len(m.FDs) != 1 {
		return nil, fmt.Errorf("%w: no descriptor", ErrProtocol)
	}
	if err := prepareChannel(m.FDs[0]); err != nil {
		return nil, err
	}
	s.setChannel(m.takeFD())
	return nil, nil
}

// prepareChannel checks that a descriptor can carry requests, and makes it non-blocking.
func prepareChannel(fd *FD) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd.Int(), &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if t := st.Mode & unix.S_IFMT; t != unix.S_IFSOCK && t != unix.S_IFIFO {
		return fmt.Errorf("%w: descriptor of mode %#o is neither a socket nor a pipe",
			ErrProtocol, st.Mode)
	}
	if err := unix.SetNonblock(fd.Int(), true); err != nil {
		return fmt.Errorf("set non-blocking: %w", err)
	}
	return nil
}

// setChannel replaces the back-end channel.
func (s *Session) setChannel(fd *FD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.channel.Close()
	s.channel = fd
}

// ConfigChanged tells the driver that the config space has changed. It never waits: no reply is
// asked for, since UML's channel can't carry one, and a full channel holds the news already. It is
// for devices whose config space changes while they run; none in this repository does so.
func (s *Session) ConfigChanged() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.channel == nil {
		return ErrNoChannel
	}
	m := &Message{Request: BackendConfigChange, Flags: FlagVersion}
	n, err := writeNow(s.channel.Int(), m.AppendTo(nil))
	if err == unix.EOPNOTSUPP && ready(s.channel.Int(), unix.POLLOUT) {
		n, err = unix.Write(s.channel.Int(), m.AppendTo(nil)) // a pipe of Linux before 6.4
	}
	switch {
	case err == unix.EAGAIN:
		return nil
	case err == nil && n < HeaderSize:
		// Half a message can't be fixed; what follows it would be misread.
		err = fmt.Errorf("%w: wrote %d bytes", ErrStream, n)
		fallthrough
	case err != nil:
		_ = s.channel.Close()
		s.channel = nil
		return fmt.Errorf("tell of a config change: %w", err)
	}
	s.trace.line(requested, m)
	return nil
}
