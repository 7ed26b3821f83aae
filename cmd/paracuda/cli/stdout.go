// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"os"
	"sync"
)

// Noted is a writer that remembers its first error, for callers that ignore errors.
type Noted struct {
	W   io.Writer
	mu  sync.Mutex
	err error
}

func (n *Noted) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return 0, n.err
	}
	var done int
	done, n.err = n.W.Write(b)
	return done, n.err
}

// Failed is that error.
func (n *Noted) Failed() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Stdout is what commands print on. main reports its error.
var Stdout = &Noted{W: os.Stdout}
