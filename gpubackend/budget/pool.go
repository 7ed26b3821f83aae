// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"sync"
	"sync/atomic"
)

// Pool is what the budgets of several processes have together.
type Pool interface {
	// Take takes all or nothing.
	Take(bytes uint64) bool
	// Force takes what is there already.
	Force(bytes uint64)
	Give(bytes uint64)
}

// errPool says that the pool is empty. It is an ErrExceeded.
var errPool error = poolError{}

type poolError struct{}

func (poolError) Error() string {
	return "host memory of all processes of the VM is used up (--set vm-host-memory)"
}

func (poolError) Is(target error) bool { return target == ErrExceeded }

// Chunk is how much is taken from a pool, or given back, at a time, so that the pool's memory,
// which the VM's processes share, is seldom touched.
const Chunk = 4 << 20

// pooled is what a budget has taken from its pool.
type pooled struct {
	pool  Pool
	taken atomic.Uint64 // without a pool, the largest number
	mu    sync.Mutex    // held to change taken
}

func (p *pooled) begin(pool Pool) {
	if p.pool = pool; pool == nil {
		p.taken.Store(math.MaxUint64)
	}
}

// covers makes sure that what is used and bytes more is taken from the pool, and says whether that
// succeeded.
func (p *pooled) covers(used *atomic.Uint64, more uint64) bool {
	if used.Load()+more <= p.taken.Load() {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	taken, want := p.taken.Load(), used.Load()+more
	if want <= taken {
		return true
	}
	for _, bytes := range []uint64{rounded(want - taken), want - taken} {
		if p.pool.Take(bytes) {
			p.taken.Store(taken + bytes)
			return true
		}
	}
	return false
}

// force takes what is used from the pool, even beyond its limit.
func (p *pooled) force(used *atomic.Uint64) {
	if used.Load() <= p.taken.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follow(used)
}

// follow takes what is used and not yet taken. mu is held.
func (p *pooled) follow(used *atomic.Uint64) {
	if taken, now := p.taken.Load(), used.Load(); now > taken {
		p.pool.Force(rounded(now - taken))
		p.taken.Store(taken + rounded(now-taken))
	}
}

// shrink gives back what is far more than is used.
func (p *pooled) shrink(used *atomic.Uint64) {
	if p.pool == nil || p.taken.Load() < used.Load()+2*Chunk {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	taken, keep := p.taken.Load(), rounded(used.Load())
	if taken <= keep {
		return
	}
	p.taken.Store(keep)
	p.follow(used) // a Take meanwhile may have relied on what was given back
	p.pool.Give(taken - keep)
}

// rounded is a number of chunks.
func rounded(bytes uint64) uint64 {
	if bytes > math.MaxUint64-Chunk {
		return bytes
	}
	return (bytes + Chunk - 1) / Chunk * Chunk
}
