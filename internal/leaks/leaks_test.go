// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFound leaves one of each kind, and sees it found.
func TestFound(t *testing.T) {
	mark := marked()
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
		", no child: sleep 61": func() func() {
			out, err := exec.Command("sh", "-c", "sleep 61 >/dev/null 2>&1 & echo $!").Output()
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				_ = unix.Kill(pid, unix.SIGKILL)
				for command(pid) != "" { // its parent is another process
					time.Sleep(time.Millisecond)
				}
			}
		},
	} {
		before := held(mark)
		undo := leave()
		if left := more(held(mark), before); !strings.Contains(strings.Join(left, "\n"), want) {
			t.Errorf("%s isn't found: %q", want, left)
		}
		undo()
		if left := more(held(mark), before); len(left) > 0 {
			t.Errorf("%s: found when it is gone: %q", want, left)
		}
	}
}

// TestGoroutines: one that ends in time isn't found, and one that stays is.
func TestGoroutines(t *testing.T) {
	stay := make(chan struct{})
	go func() { <-stay }()
	if goroutines(time.Now(), nil) == nil {
		t.Error("a goroutine that stays isn't found")
	}
	const slow = 3 * time.Second // longer than one search
	time.AfterFunc(slow, func() { close(stay) })
	if err := goroutines(time.Now().Add(10*slow), nil); err != nil {
		t.Error(err)
	}
}
