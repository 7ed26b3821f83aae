// SPDX-License-Identifier: Apache-2.0

package ahead

import (
	"math"

	"golang.org/x/sys/unix"
)

// An arbiter bounds how many warm workers all VMs of a GPU have together, and so says how many this
// one may keep. Without one the VM's owner alone decides.

// Any is the bound that is none.
const Any = math.MaxInt

// Bound bounds how many workers are kept warm on each GPU, whatever the VM's owner wants.
func (a *Ahead) Bound(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bound != n {
		a.bound = n
		a.refill()
	}
}

// Wants is how many workers would be kept warm on each GPU if nobody bounded them, and when a
// program began last, in ns of the host's monotonic clock; 0: none did.
func (a *Ahead) Wants() (workers int, begun uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.want, a.begun
}

// News signals that another number is wanted.
func (a *Ahead) News() <-chan struct{} { return a.news }

// now is the host's monotonic clock.
func now() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return uint64(t.Nano())
}
