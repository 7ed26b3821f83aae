// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Keep keeps a descriptor at a place, instead of what was there. The caller keeps its own.
func (r *Remains) Keep(p Purpose, fd int) {
	if r != nil {
		r.fail(r.store.KeepOwn(uint32(p), fd))
	}
}

// KeepFile keeps the descriptor of a connection or file.
func (r *Remains) KeepFile(p Purpose, file syscall.Conn) {
	if r == nil {
		return
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { r.Keep(p, int(fd)) })
}

// Drop drops what is kept at a place.
func (r *Remains) Drop(p Purpose) {
	if r != nil {
		r.fail(r.store.DropOwn(uint32(p)))
	}
}

// Take returns, once, what the process before this one has left at a place. The caller owns it; it
// also stays kept until it is dropped or replaced.
func (r *Remains) Take(p Purpose) (fd int, left bool) {
	if r == nil {
		return -1, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if fd, left = r.left[p]; !left {
		return -1, false
	}
	delete(r.left, p)
	return fd, true
}

// Look returns a descriptor of the caller's own for what Take would return, which stays there.
func (r *Remains) Look(p Purpose) (fd int, left bool) {
	if r == nil {
		return -1, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if fd, left = r.left[p]; !left {
		return -1, false
	}
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return fd, err == nil
}
