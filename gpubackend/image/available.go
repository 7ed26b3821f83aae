// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
)

// reserve is what is left to the host in any case.
const reserve = 256 << 20

var meminfo = sync.OnceValues(func() (*os.File, error) { return os.Open("/proc/meminfo") })

// Host returns what tells how much memory the host can give to images now: what it says is
// available, but for a reserve. The limit of a control group isn't looked at. The file is opened at
// once, and stays open for the process: later that may not open any.
func Host() (ask func() (uint64, error)) {
	file, err := meminfo()
	return func() (uint64, error) {
		if err != nil {
			return 0, fmt.Errorf("ask for the host's memory: %w", err)
		}
		text := make([]byte, 4096)
		n, _ := file.ReadAt(text, 0) // it may end before that
		return available(text[:n])
	}
}

// available reads that of the kernel's text.
func available(text []byte) (uint64, error) {
	for line := range bytes.Lines(text) {
		var kib uint64
		if _, err := fmt.Sscanf(string(line), "MemAvailable: %d kB", &kib); err == nil {
			bytes := min(kib, 1<<50) << 10
			return bytes - min(bytes, reserve), nil
		}
	}
	return 0, errors.New("ask for the host's memory: the kernel doesn't say what is available")
}
