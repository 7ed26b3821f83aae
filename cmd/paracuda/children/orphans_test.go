// SPDX-License-Identifier: Apache-2.0

package children

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/keeper/keepertest"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/gpubackend/starter"
)

// starterOf is a starter process's loop, whose children sleep.
func starterOf(t *testing.T) (device *net.UnixConn, end func()) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		if conns[i], err = socket.Conn(fd); err != nil {
			t.Fatal(err)
		}
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = starter.Serve(conns[1], starter.Config{
			Start: func(starter.Role, *os.File) (starter.Child, error) {
				return starter.Execute(exec.Command("sleep", "1000"), (*exec.Cmd).Start)
			},
		})
	}()
	return conns[0], func() { conns[1].Close(); <-served }
}

// filesOf are those of the next device process.
func filesOf(t *testing.T, s keepertest.Store) *childFiles {
	t.Helper()
	r, _, err := remains.New(s, s.Given(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return &childFiles{remains: r}
}

// keptPidfds says how many descriptors of children are kept.
func keptPidfds(s keepertest.Store) (n int) {
	for i := range remains.Pidfds {
		if _, is := s[uint32(remains.Pidfd(i))]; is {
			n++
		}
	}
	return n
}

// TestOrphans: a device process whose starter process is gone has the children of the one before,
// and learns from the kernel when they have ended.
func TestOrphans(t *testing.T) {
	if remains.Pidfds < starter.MaxChildren {
		t.Errorf("there are places for %d children, there may be %d", remains.Pidfds,
			starter.MaxChildren)
	}
	s := keepertest.Store{}
	defer s.Close()
	conn, end := starterOf(t)
	client := starter.NewClient(conn)
	d := newDistant(client, nil, filesOf(t, s))
	control := os.NewFile(uintptr(pairOf(t)), "control")
	defer control.Close()
	var children []device.Process
	for range 3 {
		p, err := d.Worker(control)
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, p)
	}
	children[1].Kill()
	_ = children[1].Wait()
	if n := keptPidfds(s); n != 2 {
		t.Fatalf("of 2 children %d are kept", n)
	}
	next := filesOf(t, s) // its starter process lives on
	left := next.resume([]*starter.Process{children[0].(keptChild).Process})
	if n := keptPidfds(s); n != 1 || len(left) != 1 {
		t.Fatalf("of 1 child %d are kept, %d left", n, len(left))
	}
	left = filesOf(t, s).orphans()
	if len(left) != 1 {
		t.Fatalf("%d are left", len(left))
	}
	gone := make(chan error, 1)
	go func() { gone <- left[0].Wait() }()
	select {
	case err := <-gone:
		t.Fatalf("it lives, and is said to be gone: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	left[0].Kill()
	if err := <-gone; !errors.Is(err, starter.ErrGone) || keptPidfds(s) != 0 {
		t.Errorf("%v, %d are kept", err, keptPidfds(s))
	}
	children[2].Kill()
	_, _ = children[0].Wait(), children[2].Wait()
	client.Close()
	end()
}

// pairOf is one end of a pair of sockets, whose other end is closed.
func pairOf(t *testing.T) int {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fds[1])
	return fds[0]
}
