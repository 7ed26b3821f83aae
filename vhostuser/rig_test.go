// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// newPipe makes a pipe, read end first, that is closed when the test ends.
func newPipe(tb testing.TB) [2]int {
	tb.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = unix.Close(p[0]), unix.Close(p[1]) })
	return p
}

// wantBytes reads once and compares, in hexadecimal.
func wantBytes(tb testing.TB, fd int, want string) {
	tb.Helper()
	buf := make([]byte, 256)
	n, err := unix.Read(fd, buf)
	if err != nil {
		tb.Fatal(err)
	}
	if got := fmt.Sprintf("% x", buf[:n]); got != want {
		tb.Errorf("read %s, want %s", got, want)
	}
}

// logBuffer collects what a session logs.
type logBuffer struct {
	mu  sync.Mutex
	buf strings.Builder // guarded by mu
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what came since String was last called.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.buf.String()
	b.buf.Reset()
	return s
}

func newLogger(w io.Writer) *logrus.Logger {
	l := logrus.New()
	l.SetOutput(w)
	return l
}
