// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseInherited makes the kernel close all descriptors from first on that this process has now, in
// every program that it executes. The process itself keeps them.
func CloseInherited(first int) error {
	if err := unix.CloseRange(
		uint(first), math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC,
	); err != nil {
		return fmt.Errorf("keep descriptors from children: %w", err)
	}
	return nil
}

// Inherited lists the descriptors from first on that this process was started with, and would pass
// on.
func Inherited(first int) (fds []int, err error) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, fmt.Errorf("look for inherited descriptors: %w", err)
	}
	for _, file := range list {
		fd, err := strconv.Atoi(file.Name())
		if err != nil || fd < first {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}
