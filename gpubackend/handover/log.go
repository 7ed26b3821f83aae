// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

// Log says where in its file a log of dirty pages is.
type Log struct{ Offset, Size uint64 }

// GiveLog adds a log to a message, and its file to those that go with it; nil: no log.
func (m *Message) GiveLog(l *dirtylog.Log, fds []int) []int {
	if l == nil {
		return fds
	}
	m.Log, m.Files.Log = &Log{l.Offset(), l.Size()}, true
	return append(fds, l.FD())
}

// TakeLog sets a switch to the log that a message carries, or to none, and closes the log before.
// It also closes the file, which is -1 if there is none.
func (m *Message) TakeLog(fd int, s *dirtylog.Switch) error {
	if fd >= 0 {
		defer unix.Close(fd)
	}
	var next *dirtylog.Log
	var err error
	if m.Log != nil {
		next, err = dirtylog.Open(fd, m.Log.Offset, m.Log.Size)
	}
	if before := s.Set(next); before != nil {
		err = errors.Join(err, before.Close())
	}
	return err
}
