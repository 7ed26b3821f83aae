// SPDX-License-Identifier: Apache-2.0

package guestmem

import "golang.org/x/sys/unix"

// Right says by what right a range is mapped, where another process decides on that (NewNumbered).
// What it means is between the user of the memory and that process, which finds the lower half of
// it in the upper half of mmap's descriptor, and the upper half in that of the flags. The kernel
// ignores both with MAP_SHARED.
type Right uint64

// RightOf is the right in the arguments of a call of mmap.
func RightOf(fd, flags uint64) Right { return Right(fd>>half | flags>>half<<half) }

const half = 32

// Rights are those by which a memory's own accesses map.
type Rights struct{ Read, Write, Slice Right }

// SetRights says by what rights a memory maps. It is called before the memory is used.
func (m *Memory) SetRights(r Rights) { m.rights = r }

// file is how mmap is asked to map some of a region's file.
func (mp *mapping) file(write bool, by Right) (prot, fd, flags int) {
	r := Run{FD: mp.fd, ReadFD: mp.readFD, Right: by}
	prot, fd, flags = r.File(write)
	return prot, fd, flags | unix.MAP_NORESERVE
}

// File is how mmap is asked to map a run elsewhere.
func (r *Run) File(write bool) (prot, fd, flags int) {
	prot, fd = unix.PROT_READ, r.ReadFD
	if write {
		prot, fd = prot|unix.PROT_WRITE, r.FD
	}
	return prot, fd | int(r.Right<<half), unix.MAP_SHARED | int(r.Right>>half<<half)
}
