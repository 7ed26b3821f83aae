// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// What workers lend is mapped here, and a process has limited mappings (vm.max_map_count) and
// addresses. So there is a bound for each worker and one for all. A worker that is refused copies
// through its staging memory. For that there is always room: some mappings of each worker don't
// count in the sum.

const (
	// maxStagings bounds what one worker lends at a time.
	maxStagings = 1 << 11
	// maxAssured is how many of these it always gets.
	maxAssured = 1 << 6
	// maxStaging bounds the bytes that one worker lends, and the length of their file, which stands
	// for all device memory and consists mostly of holes.
	maxStaging = 1 << 40
	// maxLent bounds the bytes of all workers, to half of a process's addresses.
	maxLent = 1 << 46
)

// quota is what workers may lend and what they have lent.
type quota struct {
	most    int // of all, beyond what is assured
	one     int // of a worker
	assured int // of a worker

	shared int    // mappings beyond what is assured
	bytes  uint64 // of all
}

// newQuota leaves half of a process's mappings to other uses: guest memory and the Go runtime. The
// CUDA driver takes neither mappings nor files for memory that it imports (580, an H200).
func newQuota(mappings int) *quota {
	half := max(mappings, 0) / 2
	q := &quota{assured: max(1, min(maxAssured, half/2/wire.MaxChannels)), most: half / 2}
	q.one = min(maxStagings, q.assured+q.most)
	return q
}

// taken is what one worker has lent.
type taken struct {
	mappings int
	bytes    uint64
}

var errQuota = errors.New("the bound on what is lent to the mover is reached")

// take counts a mapping, or says which bound it exceeds.
func (q *quota) take(t *taken, bytes uint64) error {
	switch {
	case t.mappings >= q.one:
		return fmt.Errorf("%w: a worker may lend %d mappings", errQuota, q.one)
	case bytes > maxStaging-t.bytes:
		return fmt.Errorf("%w: a worker may lend %d bytes", errQuota, uint64(maxStaging))
	case t.mappings >= q.assured && q.shared >= q.most:
		return fmt.Errorf("%w: all workers may lend %d mappings", errQuota, q.most)
	case bytes > maxLent-q.bytes:
		return fmt.Errorf("%w: all workers may lend %d bytes", errQuota, uint64(maxLent))
	}
	if t.mappings >= q.assured {
		q.shared++
	}
	t.mappings++
	t.bytes += bytes
	q.bytes += bytes
	return nil
}

// give undoes take.
func (q *quota) give(t *taken, bytes uint64) {
	t.mappings--
	if t.mappings >= q.assured {
		q.shared--
	}
	t.bytes -= bytes
	q.bytes -= bytes
}
