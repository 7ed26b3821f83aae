// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/flock"
)

// File is a file that is written. A new one has no name until Keep gives it one: a process that is
// killed before that leaves nothing. If it was opened to extend, and isn't kept, its writer must
// cut off what was added.
type File struct {
	*os.File
	path string
	name func(f *File) error // gives it its name
}

// ErrGrown says that too much was added to a file: it must be written as a whole.
var ErrGrown = errors.New("the file has grown too long: write it as a whole")

// Create makes a file for path, which only its owner may read, as a GPU's memory is in it. No file
// may have that name yet: it may be the only record of a VM.
func Create(path string) (*File, error) {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		if err == nil {
			err = os.ErrExist
		}
		return nil, fmt.Errorf("create %s: %w: give another name, or remove it", path, err)
	}
	return unnamed(path, (*File).link)
}

// Replace is Create for a file that takes the place of the one that has that name.
func Replace(path string) (*File, error) { return unnamed(path, (*File).supplant) }

func unnamed(path string, name func(*File) error) (*File, error) {
	f, err := os.OpenFile(filepath.Dir(path), unix.O_TMPFILE|os.O_RDWR, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		return nil, fmt.Errorf("create %s: its file system has no files without names: use "+
			"another one, such as ext4, xfs, btrfs or tmpfs", path)
	}
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	return &File{f, path, name}, nil
}

// Extend opens a file to add a record to it. Nobody else can do so until it is closed.
func Extend(path string) (*File, error) {
	f, err := openRegular(path, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	switch err := flock.Try(int(f.Fd())); {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = errors.New("another command is writing it")
		fallthrough
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("open the record %s: %w", path, err)
	}
	return &File{f, path, func(*File) error { return nil }}, nil
}

// Reserve reserves room on the disk, or says that there isn't enough.
func (f *File) Reserve(bytes uint64) error {
	if bytes > math.MaxInt64 {
		return fmt.Errorf("write %s: %d bytes are too many for a file", f.path, bytes)
	}
	if bytes == 0 {
		return nil
	}
	for {
		switch err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, int64(bytes)); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP):
			return f.enough(bytes)
		case err != nil:
			return fmt.Errorf("take room for %d bytes for %s: %w", bytes, f.path, err)
		default:
			return nil
		}
	}
}

// enough says whether there is room now, for file systems that can't reserve any.
func (f *File) enough(bytes uint64) error {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return fmt.Errorf("look for room for %s: %w", f.path, err)
	}
	if room := s.Bavail * uint64(s.Bsize); bytes > room {
		return fmt.Errorf("write %s: it takes %d bytes, and its disk has %d: %w",
			f.path, bytes, room, unix.ENOSPC)
	}
	return nil
}

// Keep gives the file its name, after all of it is on the disk, and closes it. If there is a file
// of that name by now which isn't to be replaced, it stays, and this one is still open.
func (f *File) Keep() error {
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	if err := f.name(f); err != nil {
		return fmt.Errorf("name %s: %w", f.path, err)
	}
	dir, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return fmt.Errorf("name %s: %w", f.path, err)
	}
	err = dir.Sync()
	if err = errors.Join(err, dir.Close(), f.Close()); err != nil {
		return fmt.Errorf("name %s: %w", f.path, err)
	}
	return nil
}

// link gives the file its name.
func (f *File) link() error { return f.linkTo(f.path) }

func (f *File) linkTo(path string) error {
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD,
		path, unix.AT_SYMLINK_FOLLOW)
}

// supplant gives the file the name of another one, and so replaces it.
func (f *File) supplant() error {
	mine := filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+".paracuda")
	if err := os.Remove(mine); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // a command that was killed here has left one
	}
	if err := f.linkTo(mine); err != nil {
		return err
	}
	return os.Rename(mine, f.path)
}

// Open opens a file that is to be read: a regular one, which can be read twice.
func Open(path string) (*os.File, error) { return openRegular(path, os.O_RDONLY) }

func openRegular(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NONBLOCK, 0) // don't wait for a FIFO
	if err != nil {
		return nil, fmt.Errorf("open the record: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it isn't a regular file")
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open the record %s: %w", path, err)
	}
	return f, nil
}
