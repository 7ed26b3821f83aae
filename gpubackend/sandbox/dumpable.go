// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NotDumpable keeps others out of this process: from now on its memory, environment and descriptors
// are shown only to processes with CAP_SYS_PTRACE, not to all of the same user, and it leaves no
// core (prctl(2), PR_SET_DUMPABLE). Executing a program ends that.
func NotDumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep others from looking into this process: %w", err)
	}
	return nil
}

// MayLook says whether this process may look into processes that are NotDumpable.
func MayLook() bool { return has(unix.CAP_SYS_PTRACE) }
