// SPDX-License-Identifier: Apache-2.0

package overlap

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestTake: memory is empty, of that size, and large memory is gone once it is given back.
func TestTake(t *testing.T) {
	for _, bytes := range []int{0, 1, mapped - 1, mapped, mapped + 1, 16 << 20} {
		b := Take(bytes)
		if len(b) != bytes {
			t.Fatalf("%d bytes, want %d", len(b), bytes)
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("byte %d of %d is %d", i, bytes, b[i])
			}
			b[i] = 1
		}
		Give(b)
		if bytes < mapped {
			continue
		}
		if err := unix.Madvise(b[:4096], unix.MADV_NORMAL); err != unix.ENOMEM {
			t.Errorf("%d bytes are still mapped: %v", bytes, err)
		}
	}
}

// TestGiveOfTheHeap does nothing: Take had no other memory.
func TestGiveOfTheHeap(t *testing.T) {
	b := make([]byte, 2*mapped)
	Give(b)
	b[0], b[len(b)-1] = 1, 1
}
