// SPDX-License-Identifier: Apache-2.0

package devmem

import "testing"

// TestWindows: those of all GPUs end before the place of a program that the kernel loads anywhere.
func TestWindows(t *testing.T) {
	const program = 0x555555554000 // where it is without address randomization, else behind that
	for gpus, want := range map[int]uint64{
		0: Window, 1: Window, 4: Window, 5: Window / 2, 8: Window / 2, 9: Window / 4,
		16: Window / 4,
	} {
		window := WindowOf(gpus)
		if window != want || Base+uint64(gpus)*window > program {
			t.Errorf("%d GPUs: %#x each, to %#x", gpus, window, Base+uint64(gpus)*window)
		}
	}
}
