// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// TestMapIsOnlyToRead: a page that the guest's process may only read is mapped read-only.
func TestMapIsOnlyToRead(t *testing.T) {
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 4096); err != nil {
		t.Fatal(err)
	}
	runs := []guestmem.Run{{Bytes: make([]byte, 4096), FD: fd, ReadFD: fd}}
	for writable, want := range map[bool]string{false: "r--s", true: "rw-s"} {
		b, unmap, err := Map(runs, 0, writable)
		if err != nil {
			t.Fatal(err)
		}
		if got := protection(t, b); got != want {
			t.Errorf("writable %t: %s, want %s", writable, got, want)
		}
		unmap()
	}
}

// protection is that of the mapping that begins at b, according to /proc.
func protection(t *testing.T, b []byte) string {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if addresses, rest, _ := strings.Cut(line, " "); strings.HasPrefix(addresses,
			fmt.Sprintf("%x-", (*Arena)(nil).Address(b))) {
			return rest[:4]
		}
	}
	return "nothing"
}
