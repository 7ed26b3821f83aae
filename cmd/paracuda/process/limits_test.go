// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestCoreLimit: a limit below 1 stays, since only root may raise it.
func TestCoreLimit(t *testing.T) {
	for most, want := range map[uint64]uint64{0: 0, 1: 1, 4096: 1, unix.RLIM_INFINITY: 1} {
		if got := coreLimit(most); got.Cur != want || got.Max != want {
			t.Errorf("%d: %+v, want %d", most, got, want)
		}
	}
}
