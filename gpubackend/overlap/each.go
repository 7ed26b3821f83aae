// SPDX-License-Identifier: Apache-2.0

package overlap

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// widest is how many parts are worked on at the same time, at most: with more, memory is no faster.
const widest = 16

// Width is how many parts are worked on at the same time.
func Width() int { return min(widest, runtime.GOMAXPROCS(0)) }

// Each calls f with 0 to n-1, with several of them at the same time. After an error no further
// call begins. It returns the first error when no call is under way.
func Each(n int, f func(i int) error) error {
	var next atomic.Int64
	var first error
	var once sync.Once
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			if err := f(i); err != nil {
				once.Do(func() { first = err })
				next.Store(int64(n))
			}
		}
	}
	var others sync.WaitGroup
	for range min(n, Width()) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	return first
}
