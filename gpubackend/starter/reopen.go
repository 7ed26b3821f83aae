// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// canReopen is what a starter process says that knows reopen. One of an earlier version, which a
// device process may take over, would end.
const canReopen = "reopens"

var (
	errReopen = errors.New("only a file in memory that can be read and written is opened again")
	errCant   = errors.New("the starter process is of an earlier version")
)

// reopen opens a file once more, to be read only. The asker could have read it before, so it gains
// nothing but a descriptor with fewer rights, of which no mapping can ever be written.
func (s *server) reopen(m *message, file *os.File) {
	again, err := reopenedToRead(int(file.Fd()))
	if err != nil {
		s.refuse(m, err)
		return
	}
	defer unix.Close(again)
	_ = send(s.conn, &message{kind: reopened, id: m.id}, again)
}

func reopenedToRead(fd int) (again int, err error) {
	var fs unix.Statfs_t
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil {
		err = unix.Fstatfs(fd, &fs)
	}
	var was, is unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &was)
	}
	switch {
	case err != nil:
		return -1, fmt.Errorf("open a file again: %w", err)
	case flags&unix.O_ACCMODE != unix.O_RDWR || flags&unix.O_PATH != 0,
		was.Mode&unix.S_IFMT != unix.S_IFREG,
		fs.Type != unix.TMPFS_MAGIC && fs.Type != unix.HUGETLBFS_MAGIC:
		return -1, errReopen
	}
	again, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a file again: %w", err)
	}
	if err := unix.Fstat(again, &is); err != nil || is.Dev != was.Dev || is.Ino != was.Ino {
		unix.Close(again)
		return -1, errReopen
	}
	return again, nil
}

// Reopen opens a file once more, to be read only.
func (c *Client) Reopen(fd int) (*os.File, error) {
	if !c.reopens {
		return nil, errCant
	}
	a, err := c.ask(&message{kind: reopen}, fd)
	if err == nil && a.file == nil {
		a.drop()
		err = errMessage
	}
	if err != nil {
		return nil, fmt.Errorf("open a file to be read only: %w", err)
	}
	return a.file, nil
}
