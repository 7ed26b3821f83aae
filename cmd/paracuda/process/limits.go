// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/proclimit"
	"github.com/paracuda/paracuda/internal/fix"
)

// CanShareMemory returns an error if this process and its children can't make memory to share. All
// of them need that.
func CanShareMemory() error {
	if err := proclimit.Memfd(); err != nil {
		return fmt.Errorf("%w: %s", err, fix.Memfd("/", err))
	}
	return nil
}

// LeaveNoCore keeps this process from leaving core dumps: a guest can end its worker as often as it
// likes. The limit is 1 byte, less than any core has: with 0 the kernel would still pass cores to a
// program (core(5)).
func LeaveNoCore() error {
	var now unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_CORE, &now)
	if err == nil {
		limit := coreLimit(now.Max)
		err = unix.Setrlimit(unix.RLIMIT_CORE, &limit)
	}
	if err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	return nil
}

// coreLimit is 1, unless less is allowed: a service may have LimitCORE=0, which it may not raise.
func coreLimit(most uint64) unix.Rlimit {
	return unix.Rlimit{Cur: min(1, most), Max: min(1, most)}
}
