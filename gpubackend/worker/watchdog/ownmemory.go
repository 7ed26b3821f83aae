// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"fmt"
	"os"
	"time"
)

// What the CUDA driver takes of the host's memory, for compiling PTX for example, isn't counted,
// and no accounting is complete. So a worker watches its own unshared memory, and ends when that is
// far more than the guest process may make it take: the guest process loses its GPU before the
// kernel looks for a process to kill.

// What it may have in addition: as much again for garbage, and what the driver and its libraries
// take for themselves.
const driverBytes = 2 << 30

// memoryPeriod is how often it looks. In that time a driver that compiles may take some hundred
// MiB.
const memoryPeriod = 250 * time.Millisecond

// watchMemory calls over when the result of read, less images, exceeds what limit allows, until
// quit is closed.
func watchMemory(
	limit, images, read func() uint64, ticks <-chan time.Time, quit <-chan struct{},
	over func(has, limit uint64),
) {
	for {
		select {
		case <-ticks:
		case <-quit:
			return
		}
		most := 2*min(limit(), 1<<62) + driverBytes
		before, has := images(), read()
		// If an image comes or goes meanwhile, read may have counted some of it.
		if has -= min(max(before, images()), has); has > most {
			over(has, most)
			return
		}
	}
}

// ownMemory returns a function that reads how many bytes of memory this process shares with no
// other; 0 if that can't be known. The file is opened once: later the process may not open any.
func ownMemory() (read func() uint64, end func()) {
	file, err := os.Open("/proc/self/statm")
	if err != nil {
		return func() uint64 { return 0 }, func() {}
	}
	return func() uint64 {
		var text [128]byte
		var size, resident, shared uint64
		n, _ := file.ReadAt(text[:], 0) // the text is shorter than the buffer
		if _, err := fmt.Sscan(string(text[:n]), &size, &resident, &shared); err != nil {
			return 0
		}
		return (resident - min(shared, resident)) * uint64(os.Getpagesize())
	}, func() { file.Close() }
}

// GuardMemory ends the process when it has too much memory, not counting its images, which the
// device process has allowed. What it returns ends the guard.
func (d *Watchdog) GuardMemory(limit, images func() uint64) (stop func()) {
	ticker, quit := time.NewTicker(memoryPeriod), make(chan struct{})
	read, end := ownMemory()
	go watchMemory(limit, images, read, ticker.C, quit, func(has, most uint64) {
		log := d.log.Load()
		log.Errorf("the worker has %d MiB of the host's memory, more than %d: it ends "+
			"(--set host-memory)", has>>20, most>>20)
		log.Logger.Exit(1) // when the line is written
	})
	return func() {
		ticker.Stop()
		close(quit)
		end()
	}
}
