// SPDX-License-Identifier: Apache-2.0

package process

import (
	"runtime"
	"sync"
)

// SpareThreads makes threads, which the runtime keeps and uses when it needs some. If it got none
// then, since a limit is reached, it would end the process.
func SpareThreads(n int) {
	var ready, all sync.WaitGroup
	end := make(chan struct{})
	ready.Add(n)
	for range n {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-end
		})
	}
	ready.Wait()
	close(end)
	all.Wait()
}
