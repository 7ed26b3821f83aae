// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"math"

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
