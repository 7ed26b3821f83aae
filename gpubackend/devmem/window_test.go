// SPDX-License-Identifier: Apache-2.0

package devmem

import "testing"

// TestWindows: the windows of all GPUs end below the lowest address at which the kernel loads a
// program.
func TestWindows(t *testing.T) {
	const program = 0x555555554000 // without address randomization; with it, above that
	for gpus, want := range map[int]uint64{
		0: Window, 1: Window, 4: Window, 5: Window / 2, 8: Window / 2, 9: Window / 4,
		16: Window / 4,
	} {
		window := WindowOf(gpus)
		if window != want || Base+uint64(gpus)*window > Behind || Behind+Window > program {
			t.Errorf("%d GPUs: %#x each, to %#x", gpus, window, Base+uint64(gpus)*window)
		}
	}
}
