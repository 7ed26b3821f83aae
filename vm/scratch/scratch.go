// SPDX-License-Identifier: Apache-2.0

// Package scratch makes directories that end with the process that made them.
//
// A process that is killed can't remove its directories. So each is locked for as long as its
// process lives (flock(2)), and New removes those of the same user that nobody has locked.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/flock"
)

// prefix is what the names begin with.
const prefix = "paracuda-run-"

// Dir is a directory for temporary files.
type Dir struct {
	Path string
	lock *os.File
}

// New makes a directory, after it has removed what dead processes left.
func New() (*Dir, error) {
	sweep(os.TempDir())
	for {
		path, err := os.MkdirTemp("", prefix)
		if err != nil {
			return nil, fmt.Errorf("make a temporary directory: %w", err)
		}
		lock, err := lockDir(path, flock.Take)
		switch {
		case err == nil && isAt(lock, path):
			return &Dir{path, lock}, nil
		case err == nil:
			lock.Close() // another process was quicker to lock it, and removed it
		case !errors.Is(err, os.ErrNotExist):
			return nil, errors.Join(fmt.Errorf("lock a temporary directory: %w", err),
				os.RemoveAll(path))
		}
	}
}

// Remove removes the directory and what is in it.
func (d *Dir) Remove() error {
	defer d.lock.Close()
	return os.RemoveAll(d.Path)
}

// sweep removes the directories of processes that are gone. Errors don't matter: the next process
// tries again.
func sweep(parent string) {
	paths, _ := filepath.Glob(filepath.Join(parent, prefix+"*"))
	for _, path := range paths {
		lock, err := lockDir(path, flock.Try)
		if err != nil {
			continue
		}
		if isAt(lock, path) {
			_ = os.RemoveAll(path)
		}
		lock.Close()
	}
}

// lockDir locks a directory of this user's own.
func lockDir(path string, lock func(fd int) error) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil || st.Uid != uint32(os.Geteuid()) {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: errors.Join(err, os.ErrPermission)}
	}
	if err := lock(fd); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return f, nil
}

// isAt says whether a directory that is open is the one at a path.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(open, there)
}
