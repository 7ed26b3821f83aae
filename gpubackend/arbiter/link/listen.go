// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/flock"
	"github.com/paracuda/paracuda/gpubackend/socket"
)

// The modes of the folder that Listen makes: for all users, and for one user.
const (
	hostDirMode = 0o755
	userDirMode = 0o700
)

// Listen makes an arbiter's socket. Its folder is made if need be; a socket that a dead process has
// left is replaced, but no other file. group may connect too; "" is the user's own.
func Listen(path, group string) (*net.UnixListener, error) {
	g, err := socket.FindGroup(group)
	if err != nil {
		return nil, fmt.Errorf("group %w", err)
	}
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("make the socket %s: %w", path, explain(err))
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	before := unix.Umask(int(0o777 &^ socket.GroupMode))
	l, err := net.ListenUnix(Network, &net.UnixAddr{Name: path, Net: Network})
	unix.Umask(before)
	if err != nil {
		return nil, fmt.Errorf("make the socket: %w", explain(err))
	}
	if err := g.Give(path); err != nil {
		l.Close()
		return nil, fmt.Errorf("give the socket to group %s: %w", group, explain(err))
	}
	return l, nil
}

// lockDir makes a folder if need be, and keeps other arbiters from making a socket there meanwhile.
// A folder that others may write to is refused: they could replace the socket by their own.
func lockDir(dir string) (unlock func(), err error) {
	mode := os.FileMode(userDirMode)
	if os.Getuid() == 0 {
		mode = hostDirMode
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return nil, err
	}
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	unlock = func() { unix.Close(fd) }
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	switch {
	case err != nil:
	case st.Uid != 0 && int(st.Uid) != os.Getuid():
		err = fmt.Errorf("%s is user %d's: choose another --socket", dir, st.Uid)
	case st.Mode&unix.S_IWOTH != 0 && st.Mode&unix.S_ISVTX == 0:
		err = fmt.Errorf("everybody can write to %s: choose another --socket", dir)
	default:
		err = flock.Take(fd)
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// removeStale removes a socket at which nobody listens.
func removeStale(path string) error {
	is, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the socket: %w", explain(err))
	case is.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is no socket: choose another --socket", path)
	}
	c, err := net.DialUnix(Network, nil, &net.UnixAddr{Name: path, Net: Network})
	switch {
	case err == nil:
		c.Close()
		return fmt.Errorf("an arbiter runs at %s already: end it, or choose another --socket", path)
	case errors.Is(err, unix.EPROTOTYPE):
		return fmt.Errorf("%s is another program's socket: choose another --socket", path)
	case errors.Is(err, unix.EAGAIN): // its queue of connections is full
		return fmt.Errorf("an arbiter at %s doesn't answer: "+
			"end it, or choose another --socket", path)
	case !errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("look at the socket: %w", explain(err))
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the socket of an arbiter that has died: %w", explain(err))
	}
	return nil
}

// explain adds a fix to an error of the system.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: run this as root, or choose a --socket where you may write", err)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENAMETOOLONG):
		return fmt.Errorf("%w: its path is too long: choose a --socket of %d bytes at most", err,
			socket.MaxPath)
	}
	return err
}
