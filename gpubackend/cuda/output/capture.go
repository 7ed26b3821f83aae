// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
)

// Redirect takes what is written to this process's file descriptors 1 and 2, which is where the
// driver prints. These become files in memory, not pipes: while the driver prints, the only thread
// that could empty a pipe waits for the driver.
type Redirect struct {
	file  [2]*os.File
	taken [2]int64
	log   *os.File
}

// Files that hold this much are emptied; less is left, since emptying costs a system call.
const captureKept = 1 << 20

// maxOutput bounds what one call of Take returns; the rest comes with the next.
const maxOutput = 1 << 20

// NewCapture redirects the process's output for good. Call it once, before anything else writes.
func NewCapture() (*Redirect, error) {
	log, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("capture output: %w", err)
	}
	c := &Redirect{log: os.NewFile(uintptr(log), "stderr")}
	for i := range c.file {
		fd, err := unix.MemfdCreate("output", unix.MFD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("capture output: %w", err)
		}
		c.file[i] = os.NewFile(uintptr(fd), "output")
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND); err != nil {
			return nil, fmt.Errorf("capture output: %w", err)
		}
	}
	for i := range c.file {
		if err := unix.Dup3(int(c.file[i].Fd()), i+1, 0); err != nil {
			return nil, fmt.Errorf("capture output: %w", err)
		}
	}
	return c, nil
}

// Log is the former standard error, for the process's own messages (and debug.SetCrashOutput).
func (c *Redirect) Log() *os.File { return c.log }

// Take returns what was written since the last call.
func (c *Redirect) Take() []gpubackend.Output {
	var out []gpubackend.Output
	for i, f := range c.file {
		info, err := f.Stat()
		if err != nil || info.Size() <= c.taken[i] {
			continue
		}
		text := make([]byte, min(info.Size()-c.taken[i], maxOutput))
		n, _ := f.ReadAt(text, c.taken[i])
		c.taken[i] += int64(n)
		out = append(out, gpubackend.Output{FD: uint32(i + 1), Text: text[:n]})
		if c.taken[i] == info.Size() && info.Size() >= captureKept && f.Truncate(0) == nil {
			c.taken[i] = 0
		}
	}
	return out
}
