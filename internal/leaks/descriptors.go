// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"os"
	"testing"
)

// Descriptors is how many descriptors this process has, with the one by which they are counted.
func Descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
