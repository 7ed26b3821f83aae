// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// leaveNoCore keeps this process from leaving core dumps: a guest can end its worker as often as it
// likes. The limit is 1 byte, less than any core has, since with 0 the kernel still starts a
// program that takes cores (core(5)).
func leaveNoCore() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	return nil
}
