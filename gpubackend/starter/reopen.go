// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// knowsAll is what a starter process says that knows reopen, shut, weigh and makes. One of an
// earlier version, which a device process may take over, would end.
const knowsAll = "reopens, shuts, weighs, makes"

var (
	errReopen = errors.New("only a file in memory that can be read and written is opened again")
	errShut   = errors.New("only a file without a name loses its permissions")
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

// shut takes all permissions of a file that has no name, so that nobody opens it by a descriptor's
// name. As this process has no rights to files of others, it has to be its user's.
func (s *server) shut(m *message, file *os.File) {
	if err := takePermissions(int(file.Fd())); err != nil {
		s.refuse(m, err)
		return
	}
	_ = send(s.conn, &message{kind: isShut, id: m.id}, -1)
}

func takePermissions(fd int) error {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && (st.Nlink > 0 || st.Mode&unix.S_IFMT != unix.S_IFREG) {
		return errShut
	}
	if err == nil {
		err = unix.Fchmod(fd, 0)
	}
	if err != nil {
		return fmt.Errorf("take a file's permissions: %w", err)
	}
	return nil
}

// Reopen opens a file once more, to be read only.
func (c *Client) Reopen(fd int) (*os.File, error) {
	if !c.knows {
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

// Shut takes all permissions of a file without a name, if it is this user's.
func (c *Client) Shut(fd int) error {
	if !c.knows {
		return errCant
	}
	a, err := c.ask(&message{kind: shut}, fd)
	if err == nil && a.kind != isShut {
		a.drop()
		err = errMessage
	}
	if err != nil {
		return fmt.Errorf("take a file's permissions: %w", err)
	}
	return nil
}
