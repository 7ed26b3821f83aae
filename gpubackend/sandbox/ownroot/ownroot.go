// SPDX-License-Identifier: Apache-2.0

// Package ownroot gives the processes of a VM their own tree of files: the host's files that they
// need, and no others.
//
// The caller has a mount namespace of its own, may mount in it, and is the first process of a PID
// namespace: the tree has that one's /proc. Only the folders that are named for it can be written
// to. Nothing here comes from a guest.
package ownroot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Tree is what the processes see. All are paths of the host, which stay the same in the tree. Paths
// that the host doesn't have are left out.
type Tree struct {
	ReadOnly []string // files and folders
	Devices  []string // device files, and folders of them
	Writable []string // folders
	Empty    []string // folders in memory, to write in
	Program  string   // a file that is at ProgramPath in the tree, where nobody can replace it
}

// ProgramPath is where the tree has its program.
const ProgramPath = "/paracuda"

// base is where the tree is until it is the root. It hides what is there until then.
const base = "/proc"

// bounds are those of the tree's own folders in memory, and of a writable one.
var (
	bounds      = [][2]string{{"size", "1m"}, {"nr_inodes", "4k"}, {"mode", "755"}}
	emptyBounds = [][2]string{{"size", "256m"}, {"nr_inodes", "16k"}, {"mode", "1777"}}
)

const (
	noRights = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	readOnly = unix.MOUNT_ATTR_RDONLY | noRights
)

// Enter makes the tree the root of all processes of this mount namespace.
func (t Tree) Enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to oneself: %w", err)
	}
	branches, err := t.branches()
	defer func() {
		for _, p := range branches {
			unix.Close(p.fd)
		}
	}()
	if err != nil {
		return err
	}
	root, err := memory(bounds, noRights)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err := put(root, base); err != nil {
		return err
	}
	for _, p := range branches {
		if err := p.place(root); err != nil {
			return errors.Join(err, unix.Unmount(base, unix.MNT_DETACH))
		}
	}
	if err := unix.MountSetattr(root, "", unix.AT_EMPTY_PATH,
		&unix.MountAttr{Attr_set: readOnly}); err != nil {
		return errors.Join(err, unix.Unmount(base, unix.MNT_DETACH))
	}
	return pivot()
}

// pivot makes base the root, and unmounts the old one.
func pivot() error {
	for _, step := range []func() error{
		func() error { return unix.Chdir(base) },
		func() error { return unix.PivotRoot(".", ".") },
		func() error { return unix.Unmount(".", unix.MNT_DETACH) },
		func() error { return unix.Chdir("/") },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("leave the host's files: %w", err)
		}
	}
	return nil
}

// branch is a part of the tree that isn't in its place yet.
type branch struct {
	fd   int
	path string
	file bool
}

// branches opens all that the tree will have, while the host's files can still be named.
func (t Tree) branches() (branches []branch, err error) {
	add := func(fd int, path string, file bool, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		branches = append(branches, branch{fd, path, file})
		return nil
	}
	fd, err := mounted("proc", nil, readOnly|unix.MOUNT_ATTR_NOEXEC)
	if err := add(fd, "/proc", false, err); err != nil {
		return branches, err
	}
	if t.Program != "" {
		fd, err := copied(t.Program, readOnly)
		if err := add(fd, ProgramPath, true, err); err != nil {
			return branches, err
		}
	}
	for _, path := range t.Empty {
		fd, err := memory(emptyBounds, noRights|unix.MOUNT_ATTR_NOEXEC)
		if err := add(fd, path, false, err); err != nil {
			return branches, err
		}
	}
	for _, of := range []struct {
		paths []string
		attrs uint64
	}{
		{t.Devices, unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC},
		{t.Writable, noRights | unix.MOUNT_ATTR_NOEXEC},
		{t.ReadOnly, readOnly},
	} {
		for _, path := range of.paths {
			info, err := os.Stat(path)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return branches, err
			}
			fd, err := copied(path, of.attrs)
			if err := add(fd, path, !info.IsDir(), err); err != nil {
				return branches, err
			}
		}
	}
	return branches, nil
}

// place puts a branch where it belongs in the tree with this root: at its path on the host without
// links, with a link at the path by which it was named. A file that another branch has put there
// stays.
func (p branch) place(root int) error {
	real := p.path
	if path, err := filepath.EvalSymlinks(p.path); err == nil {
		real = path
	}
	at, err := inside(root, real)
	switch {
	case err == nil && p.file:
		unix.Close(at)
		return p.link(root, real)
	case errors.Is(err, unix.ENOENT):
		if err := p.prepare(base + real); err != nil {
			return err
		}
		at, err = inside(root, real)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", real, err)
	}
	defer unix.Close(at)
	if err := unix.MoveMount(p.fd, "", at, "",
		unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount on %s: %w", real, err)
	}
	return p.link(root, real)
}

// prepare makes an empty file or folder for a branch.
func (p branch) prepare(at string) error {
	if !p.file {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o444)
	if err != nil {
		return err
	}
	return f.Close()
}

// link adds a link so that a branch is also found by its name, unless a link of another branch
// leads there.
func (p branch) link(root int, real string) error {
	at, err := inside(root, p.path)
	if err == nil {
		unix.Close(at)
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(base+p.path), 0o755); err != nil {
		return err
	}
	return os.Symlink(real, base+p.path)
}

// inside opens a path as processes in the tree will see it: its links lead nowhere else.
func inside(root int, path string) (fd int, err error) {
	return unix.Openat2(root, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT,
	})
}

// copied returns a copy of the host's mount at a path, with these attributes.
func copied(path string, attrs uint64) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path,
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, err
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: attrs}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// memory returns an empty folder in memory.
func memory(options [][2]string, attrs int) (int, error) {
	return mounted("tmpfs", options, attrs)
}

// mounted returns a file system that has no place yet.
func mounted(kind string, options [][2]string, attrs int) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", kind, err)
	}
	defer unix.Close(fs)
	for _, o := range options {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("%s, %s: %w", kind, o[0], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("%s: %w", kind, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attrs)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", kind, err)
	}
	return fd, nil
}

// put gives a mount its place.
func put(fd int, path string) error {
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, path,
		unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount on %s: %w", path, err)
	}
	return nil
}
