// SPDX-License-Identifier: Apache-2.0

package ram

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// A process can open what a descriptor of its own stands for anew, by a name in /proc/self/fd, if
// the file's permissions let it. Landlock doesn't refuse that for memory without a name. So a
// worker that may open files, as on CUDA, could have the guest's memory under a descriptor of which
// nobody knows. That is ruled out by taking all permissions of the memory, also those of its owner:
// who has a descriptor, or maps it, notices nothing. The starter process does it, which is of the
// same user: a system call less for this one.

// ErrOpen says that a worker that may open files could open the guest's memory.
var ErrOpen = errors.New("memory without a name, of another user, that all may open")

// shut has take take all permissions of memory without a name, if it has any.
func shut(fd int, take func(fd int) error) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	const others = 0o066
	if st.Nlink > 0 || st.Mode&0o777 == 0 {
		return nil
	}
	err := take(fd)
	switch {
	case errors.Is(err, unix.EPERM) && st.Mode&others != 0:
		return fmt.Errorf("%w: user %d, permissions %#o", ErrOpen, st.Uid, st.Mode&0o777)
	case errors.Is(err, unix.EPERM):
		return nil
	case err != nil:
		return fmt.Errorf("take the permissions of the guest's memory: %w", err)
	}
	return nil
}

// shutAll does so for all files of a memory. The error is that of one that can be opened.
func (r *RAM) shutAll(mem *guestmem.Memory) (err error) {
	if r.opener == nil {
		return nil
	}
	for _, fd := range files(mem) {
		if e := shut(fd, r.opener.Shut); e != nil {
			err = e
		}
	}
	return err
}

// Open says why a worker that may open files could open the guest's memory; nil: it can't, as far
// as is known.
func (r *RAM) Open() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.open
}
