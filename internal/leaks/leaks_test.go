// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFound leaves one of each kind, and sees it found.
func TestFound(t *testing.T) {
	for want, leave := range map[string]func() (undo func()){
		"descriptor of socket:": func() func() {
			l, err := net.Listen("unix", t.TempDir()+"/socket")
			if err != nil {
				t.Fatal(err)
			}
			return func() { l.Close() }
		},
		"descriptor of /": func() func() {
			f, err := os.Open("/")
			if err != nil {
				t.Fatal(err)
			}
			return func() { f.Close() }
		},
		"mapping of /memfd:left": func() func() {
			fd, err := unix.MemfdCreate("left", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			if err := unix.Ftruncate(fd, 4096); err != nil {
				t.Fatal(err)
			}
			b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = unix.Munmap(b) }
		},
		"child process": func() func() {
			c := exec.Command("sleep", "60")
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			return func() { _ = c.Process.Kill(); _ = c.Wait() }
		},
	} {
		before := held()
		undo := leave()
		if left := more(before); !strings.Contains(strings.Join(left, "\n"), want) {
			t.Errorf("%s isn't found: %q", want, left)
		}
		undo()
		if left := more(before); len(left) > 0 {
			t.Errorf("%s: found when it is gone: %q", want, left)
		}
	}
}
