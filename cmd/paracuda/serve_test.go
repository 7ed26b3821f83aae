// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// dial connects to a socket once it is there.
func dial(t *testing.T, socket string) *net.UnixConn {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		if err == nil {
			t.Cleanup(func() { c.Close() })
			return c
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// use does what a front end does whose guest's driver takes the device.
func use(t *testing.T, c *net.UnixConn) *vhostusertest.Frontend {
	t.Helper()
	f := vhostusertest.NewFrontend(t, c)
	f.MustSend(vhostuser.SetFeatures, vhostusertest.Word(f.Realize(17)))
	f.MustQuery(vhostuser.GetFeatures) // it has been taken
	return f
}

// mustBeRefused connects to a device that serves another front end.
func mustBeRefused(t *testing.T, socket string) {
	t.Helper()
	c := dial(t, socket)
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a second front end is not refused: %v", err)
	}
}

// TestDeviceOutlivesFailedStarts: front ends that go before a driver took the device leave it for
// the next one, a second one is refused while one is served, and the device ends with the VM whose
// driver took it, and takes its socket along.
func TestDeviceOutlivesFailedStarts(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "gpu")
	ended := startDeviceCommand("--socket-path", socket)
	dial(t, socket).Close()
	failed := vhostusertest.NewFrontend(t, dial(t, socket))
	failed.Realize(17)
	mustBeRefused(t, socket)
	failed.Sock.Close()
	served := use(t, dial(t, socket))
	mustBeRefused(t, socket)
	select {
	case err := <-ended:
		t.Fatalf("the device has ended: %v", err)
	default:
	}
	served.Sock.Close()
	if err := wait(t, ended); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is left")
	}
}
