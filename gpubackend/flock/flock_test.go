// SPDX-License-Identifier: Apache-2.0

package flock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// open opens a file once more: locks of each open file exclude those of the others.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	first, second := open(t, path), open(t, path)
	if err := Take(int(first.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := Try(int(second.Fd())); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("a file is locked twice: %v", err)
	}
	taken := make(chan error)
	go func() { taken <- Take(int(second.Fd())) }()
	first.Close()
	if err := <-taken; err != nil {
		t.Errorf("the file is closed, and not to be locked: %v", err)
	}
	if err := Try(int(open(t, path).Fd())); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("the second lock excludes nobody: %v", err)
	}
	if err := Take(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("no file is locked: %v", err)
	}
}

func TestWhole(t *testing.T) {
	for _, c := range []struct {
		name  string
		gives []error
		want  error
	}{
		{"at once", []error{nil}, nil},
		{"after two signals", []error{unix.EINTR, unix.EINTR, nil}, nil},
		{"an error after a signal", []error{unix.EINTR, unix.ENOLCK}, unix.ENOLCK},
	} {
		calls := 0
		err := whole(func() error {
			calls++
			return c.gives[calls-1]
		})
		if !errors.Is(err, c.want) || calls != len(c.gives) {
			t.Errorf("%s: %v after %d calls", c.name, err, calls)
		}
	}
}
