// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// mostSummed is of how much memory the GPU computes sums in the measurement, if it has as much.
const mostSummed = 4 << 30

// sums makes the GPU compute the sums of memory, and compares those of its first sectors with those
// that this process computes.
func (c *checker) sums() (string, error) {
	const known = 16 * sectorsum.Bytes
	free, _, r := c.device.MemGetInfo()
	if r != gpubackend.Success {
		return "", must("memory info", r)
	}
	summed := max(known, min(mostSummed, free/32)&^(known-1))
	p, r := c.device.MemAlloc(summed)
	if r != gpubackend.Success {
		return "", must("allocate", r)
	}
	in := pattern(known, 5)
	if err := firstError(must("fill", c.device.MemsetD8Async(p, 0x5a, summed, c.stream)), c.wait(),
		must("copy in", c.device.CopyIn(p, in, c.stream)), c.wait()); err != nil {
		return "", err
	}
	list := []gpubackend.Piece{{Address: p, Bytes: summed}}
	sums := make([]uint64, summed/sectorsum.Bytes)
	var took [2]time.Duration
	for i := range took {
		start := time.Now()
		if err := must("add up", c.device.SumPieces(9, list, sums)); err != nil {
			return "", err
		}
		took[i] = time.Since(start)
	}
	c.device.EndCopies()
	for i := range known / sectorsum.Bytes {
		if w := sectorsum.Of(9, in[i*sectorsum.Bytes:][:sectorsum.Bytes]); sums[i] != w {
			return "", fmt.Errorf("the sum of sector %d is %#x, want %#x", i, sums[i], w)
		}
	}
	return fmt.Sprintf("%d MiB: %v at first, then %s", summed>>20,
		took[0].Round(time.Microsecond), rate(summed, took[1])), must("free", c.device.MemFree(p))
}
