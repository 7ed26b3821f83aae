// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"io"
	"strings"
	"sync"
)

const (
	tailBytes = 16384
	tailLines = 12
)

// tail is a writer that keeps the last of what is written to it.
type tail struct {
	next io.Writer // gets everything, if not nil

	mu   sync.Mutex
	text []byte // guarded by mu
}

// Write implements io.Writer, and takes everything.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	if t.next != nil {
		t.next.Write(p)
	}
	return len(p), nil
}

// last returns the last lines, each behind a line break.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ReplaceAll(string(t.text), "\r", "")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return "\n\t" + strings.Join(lines, "\n\t")
}
