// SPDX-License-Identifier: Apache-2.0

package sleeping

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/worker/eventfd"
)

// Files are the descriptors that a worker always sleeps on.
type Files struct {
	kick *os.File // of the guest's driver
	wake int      // of other goroutines
}

// NewFiles takes over the guest's kick.
func NewFiles(kick int) (*Files, error) {
	wake, err := eventfd.New()
	if err != nil {
		_ = unix.Close(kick)
		return nil, err
	}
	return &Files{kick: os.NewFile(uintptr(kick), "kick"), wake: wake}, nil
}

// SetKick takes over another kick.
func (f *Files) SetKick(fd int) {
	_ = f.kick.Close()
	f.kick = os.NewFile(uintptr(fd), "kick")
}

// Wake ends a sleep, or the next one.
func (f *Files) Wake() { eventfd.Notify(f.wake) }

// Close closes them.
func (f *Files) Close() {
	_ = f.kick.Close()
	_ = unix.Close(f.wake)
}

// ownFiles is how many these are.
const ownFiles = 2

// wait waits for files, the first of which are these; forever if pause is negative. It says whether
// the guest's driver has kicked.
func (f *Files) wait(fds []unix.PollFd, pause time.Duration) (kicked bool, err error) {
	fds[0] = unix.PollFd{Fd: int32(f.kick.Fd()), Events: unix.POLLIN}
	fds[1] = unix.PollFd{Fd: int32(f.wake), Events: unix.POLLIN}
	var timeout *unix.Timespec
	if pause >= 0 {
		t := unix.NsecToTimespec(pause.Nanoseconds())
		timeout = &t
	}
	if _, err := unix.Ppoll(fds, timeout, nil); err != nil && err != unix.EINTR {
		return false, fmt.Errorf("poll: %w", err)
	}
	if kicked = fds[0].Revents&unix.POLLIN != 0; kicked {
		eventfd.Drain(int(fds[0].Fd))
	}
	if fds[1].Revents != 0 {
		eventfd.Drain(f.wake)
	}
	return kicked, nil
}
