// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAWorkerThatHasTooMuchEnds: at the first look at which it has more than twice the limit and
// driverBytes, besides its images.
func TestAWorkerThatHasTooMuchEnds(t *testing.T) {
	const limit = 100 << 20
	readings := []uint64{0, limit, 2*limit + driverBytes, 2*limit + driverBytes + 1, 0}
	ticks, looks := make(chan time.Time, len(readings)), 0
	for range readings {
		ticks <- time.Time{}
	}
	var ended uint64
	const images = 10 << 30
	watchMemory(
		func() uint64 { return limit }, func() uint64 { return images },
		func() uint64 { looks++; return images*uint64(min(looks-1, 1)) + readings[looks-1] },
		ticks, nil, func(has, _ uint64) { ended = has })
	if looks != 4 || ended != readings[3] {
		t.Errorf("ended at %d bytes, at look %d", ended, looks)
	}
	quit := make(chan struct{})
	close(quit)
	watchMemory(nil, nil, nil, nil, quit, nil)
}

// TestOwnMemory: what a process writes to is its own, unless it is shared with others.
func TestOwnMemory(t *testing.T) {
	const size = 64 << 20
	ownMemory, end := ownMemory()
	defer end()
	for flags, least := range map[int]uint64{unix.MAP_PRIVATE: size / 2, unix.MAP_SHARED: 0} {
		before := ownMemory()
		b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_ANONYMOUS)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < size; i += 4096 {
			b[i] = 1
		}
		// The runtime may give memory back meanwhile.
		if now := ownMemory(); before == 0 || least > 0 && now < before+least ||
			least == 0 && now > before+size/2 {
			t.Errorf("flags %#x: %d bytes before %d more were written, %d after", flags, before,
				size, now)
		}
		if err := unix.Munmap(b); err != nil {
			t.Fatal(err)
		}
	}
}
