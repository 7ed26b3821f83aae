// SPDX-License-Identifier: Apache-2.0

package vhostuser_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/vhostuser"
	. "github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

func TestListen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := vhostuser.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := vhostuser.Listen(path); err == nil {
		t.Error("a socket that is in use was taken over")
	}
	// A process that dies leaves its socket behind.
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	l, err = vhostuser.Listen(path)
	if err != nil {
		t.Fatalf("Listen on a stale socket: %v", err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if _, err := vhostuser.Listen(filepath.Join(path, "no", "such")); err == nil {
		t.Error("Listen in no directory succeeded")
	}
}

// TestListenLeavesFilesAlone listens where other things than sockets are.
func TestListenLeavesFilesAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	notes, link := filepath.Join(dir, "notes.txt"), filepath.Join(dir, "link")
	if err := os.WriteFile(notes, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("notes.txt", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{notes, link, dir} {
		l, err := vhostuser.Listen(path)
		if err == nil {
			_ = l.Close()
		}
		if err == nil || err.Error() != path+" exists and is no socket: choose another path" {
			t.Errorf("Listen at %s: %v", path, err)
		}
	}
	if text, err := os.ReadFile(link); err != nil || string(text) != "mine" {
		t.Errorf("the file is now %q, %v", text, err)
	}
}

func TestInherit(t *testing.T) {
	t.Parallel()
	l, err := vhostuser.Listen(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, conn, err := vhostuser.Inherit(dup(t, int(f.Fd())))
	if err != nil || got == nil || conn != nil {
		t.Fatalf("Inherit of a listener = %v, %v, %v", got, conn, err)
	}
	_ = got.Close()

	a, _ := Pair(t)
	f2, err := a.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f2.Close()
	got, conn, err = vhostuser.Inherit(dup(t, int(f2.Fd())))
	if err != nil || got != nil || conn == nil {
		t.Fatalf("Inherit of a connection = %v, %v, %v", got, conn, err)
	}
	_ = conn.Close()

	if _, _, err := vhostuser.Inherit(Eventfd(t)); err == nil {
		t.Error("an eventfd was inherited as a socket")
	}
	tcp, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := vhostuser.Inherit(tcp); err == nil {
		t.Error("an internet socket was inherited")
	}
}

// TestInheritOther: sockets that work, but are none of those that a front end has.
func TestInheritOther(t *testing.T) {
	t.Parallel()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, socket := range map[string]interface{ File() (*os.File, error) }{
		"a listener": l, "a connection": c.(*net.TCPConn),
	} {
		f, err := socket.File()
		if err != nil {
			t.Fatal(err)
		}
		gotListener, gotConn, err := vhostuser.Inherit(dup(t, int(f.Fd())))
		f.Close()
		if err == nil || !strings.HasSuffix(err.Error(), "not a unix socket") {
			t.Errorf("%s of TCP was inherited: %v, %v, %v", name, gotListener, gotConn, err)
		}
	}
}

// TestInheritWhatIsNoStream: a socket of a kind that Go doesn't know is refused.
func TestInheritWhatIsNoStream(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	l, c, err := vhostuser.Inherit(fd)
	if l != nil || c != nil || err == nil {
		t.Errorf("%v, %v, %v", l, c, err)
	}
}
