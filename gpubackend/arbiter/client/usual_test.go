// SPDX-License-Identifier: Apache-2.0

package client

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arbiter/arbitertest"
	"github.com/paracuda/paracuda/gpubackend/gate"
)

// nobody is a user who is neither root nor the tests' own.
const nobody = 65534

// usual makes the folder of a user's own arbiter, and has this process look for one as that user.
// It returns the path of the arbiter's socket.
func usual(t *testing.T, user int) (path string) {
	t.Helper()
	if _, err := os.Stat(HostPath); err == nil {
		t.Skipf("this host has an arbiter at %s", HostPath)
	}
	dir, err := os.MkdirTemp("", "arbiter") // not t.TempDir: other users make a socket there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "paracuda", "arbiter.sock")
	if err := os.Mkdir(filepath.Dir(path), 0); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, filepath.Dir(path)} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("XDG_RUNTIME_DIR", dir)
	before := ownUser
	ownUser = user
	t.Cleanup(func() { ownUser = before })
	return path
}

// TestUsualPlace: a VM whose device process was named no arbiter runs without one, and joins the
// one that is started at the usual place later.
func TestUsualPlace(t *testing.T) {
	path := usual(t, max(1, os.Getuid()))
	c := config(t, "", "a")
	x, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if x.Joined() || c.Page.State() != gate.Unshared {
		t.Errorf("without an arbiter it has joined: %t; the gate is %+v", x.Joined(),
			c.Page.State())
	}
	defer arbitertest.Serve(t, path)()
	await(t, "it has joined", x.Joined)
}

// TestArbiterOfAnotherUser isn't trusted at the usual place, but is at a path that was named.
func TestArbiterOfAnotherUser(t *testing.T) {
	own := os.Getuid()
	if own == 0 { // then the arbiter runs as nobody; in both cases another user looks
		own = nobody
	}
	path := usual(t, own+1)
	ended := make(chan struct{})
	stop := make(chan func(), 1)
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the thread ends with the goroutine
		const same = ^uintptr(0)
		if os.Getuid() == 0 {
			_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, nobody, same)
			if errno != 0 {
				t.Error(errno)
				return
			}
		}
		stop <- arbitertest.Serve(t, path)
	}()
	<-ended
	select {
	case end := <-stop:
		defer end()
	default:
		t.Fatal("there is no arbiter")
	}
	c, err := Dial("")
	if err == nil {
		c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "name it with --arbiter if you trust it") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("at the usual place: %v", err)
	}
	x, err := New(config(t, "", "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if x.Joined() {
		t.Error("a VM has joined it")
	}
	if c, err = Dial(path); err != nil {
		t.Fatalf("where it is named: %v", err)
	}
	c.Close()
}
