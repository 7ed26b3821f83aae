// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func newWake() (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("eventfd: %w", err)
	}
	return fd, nil
}

// notify adds 1 to an eventfd. One that is full is readable already.
func notify(fd int) { _, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// drain resets an eventfd.
func drain(fd int) {
	var b [8]byte
	_, _ = unix.Read(fd, b[:])
}

func fileOf(fd int, name string) *os.File { return os.NewFile(uintptr(fd), name) }
