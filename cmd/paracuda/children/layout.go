// SPDX-License-Identifier: Apache-2.0

package children

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

const (
	addrCompatLayout   = 0x0200000 // ADDR_COMPAT_LAYOUT (linux/personality.h)
	currentPersonality = 0xffffffff
)

// startApart starts a worker with its libraries and mappings in the lower half of its address
// space, where no program has any by default. Memory that a guest's program pins is mapped at the
// program's own addresses, mostly near the top, where the worker's own mappings would be too.
func startApart(c *exec.Cmd) error {
	// A child has the personality of the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := personality(currentPersonality)
	if err != nil {
		return err
	}
	if err := compatLayout(); err != nil {
		return err
	}
	err = c.Start()
	if _, back := personality(before); err == nil && back != nil {
		return back
	}
	return err
}

// compatLayout gives children of the calling thread that layout.
func compatLayout() error {
	before, err := personality(currentPersonality)
	if err != nil {
		return err
	}
	_, err = personality(before | addrCompatLayout)
	return err
}

// lowLayout is compatLayout, but only logs that it isn't permitted: a container's filter of system
// calls, such as podman's, forbids it. Memory that a guest's program pins may have another address
// on the GPU then.
func lowLayout(log *logrus.Entry) func() error {
	var once sync.Once
	return func() error {
		err := compatLayout()
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
		once.Do(func() {
			log.WithError(err).Info("workers lie where guests' programs have their memory: " +
				"pinned memory may have another address on the GPU")
		})
		return nil
	}
}

func personality(p uintptr) (before uintptr, err error) {
	before, _, errno := unix.Syscall(unix.SYS_PERSONALITY, p, 0, 0)
	if errno != 0 {
		return 0, fmt.Errorf("personality: %w", errno)
	}
	return before, nil
}
