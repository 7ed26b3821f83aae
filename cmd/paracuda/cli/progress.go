// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// patient is how long a step may take before the user is told of it.
const patient = 2 * time.Second

// Progress tells a user at a terminal what takes long, in one line for each such step.
type Progress struct {
	out  io.Writer
	wait time.Duration

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; of the step that goes on
	step  int         // guarded by mu; its number
}

// NewProgress makes one that writes to a file, if that is a terminal.
func NewProgress(f *os.File) *Progress {
	return &Progress{out: OnTerminal(f), wait: patient}
}

// OnTerminal writes to a file if it is a terminal, and nowhere if not.
func OnTerminal(f *os.File) io.Writer {
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return io.Discard
	}
	return f
}

// Now begins a step; "" is one of which the user needn't be told.
func (p *Progress) Now(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.step++
	if what == "" {
		return
	}
	step := p.step
	p.timer = time.AfterFunc(p.wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.step == step {
			fmt.Fprintf(p.out, "paracuda: %s ...\n", what)
		}
	})
}
