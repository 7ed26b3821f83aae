// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// TestInheritedSockets: the device serves front ends by a socket that it inherits, one that
// listens, then one that is connected.
func TestInheritedSockets(t *testing.T) {
	if testing.Short() {
		skip(t, "-short: bin/paracuda may be missing")
	}
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	listening := inherit(t, listener)
	var conn *net.UnixConn
	for range 2 { // after a VM that fails to start there may be another one
		if conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path}); err != nil {
			t.Fatal(err)
		}
		speaks(t, conn)
	}
	if err := listening.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ends(t, listening)

	if conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path}); err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	device := inherit(t, accepted)
	speaks(t, conn)
	ends(t, device)
}

// inherit starts a device with a socket as its descriptor 3.
func inherit(t *testing.T, socket interface{ File() (*os.File, error) }) *exec.Cmd {
	t.Helper()
	file, err := socket.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command(paracuda, "device", "--gpu", "soft", "--fd", "3", "--log-level", "warning")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{file}, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// speaks begins a session as a front end does, and ends it before a driver starts.
func speaks(t *testing.T, conn *net.UnixConn) {
	t.Helper()
	vhostusertest.NewFrontend(t, conn).Realize(17)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// ends waits until a device process exits with 0.
func ends(t *testing.T, device *exec.Cmd) {
	t.Helper()
	late := time.AfterFunc(time.Minute, func() { _ = device.Process.Kill() })
	defer late.Stop()
	if err := device.Wait(); err != nil {
		t.Errorf("the device process: %v, want exit code 0", err)
	}
}
