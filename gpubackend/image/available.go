// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/paracuda/paracuda/gpubackend/fileat"
)

// reserve is what always stays for the host.
const reserve = 256 << 20

var meminfo = sync.OnceValues(func() (*os.File, error) { return os.Open("/proc/meminfo") })

// Host returns a function that tells how much memory the host can give to images now: what it says
// is available, less a reserve. Limits of control groups aren't looked at. The file is opened at
// once and stays open, since the process may not open files later.
func Host() (ask func() (uint64, error)) {
	file, err := meminfo()
	return func() (uint64, error) {
		if err != nil {
			return 0, fmt.Errorf("ask for the host's memory: %w", err)
		}
		text := make([]byte, 4096)
		n, _ := fileat.File{Conn: file}.ReadAt(text, 0) // the file may be shorter
		return available(text[:n])
	}
}

// available reads the available memory from the kernel's text.
func available(text []byte) (uint64, error) {
	for line := range bytes.Lines(text) {
		var kib uint64
		if _, err := fmt.Sscanf(string(line), "MemAvailable: %d kB", &kib); err == nil {
			bytes := min(kib, 1<<50) << 10
			return bytes - min(bytes, reserve), nil
		}
	}
	return 0, errors.New("ask for the host's memory: /proc/meminfo has no MemAvailable")
}
