// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
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

// use acts as a front end whose guest's driver takes the device.
func use(t *testing.T, c *net.UnixConn) *vhostusertest.Frontend {
	t.Helper()
	f := vhostusertest.NewFrontend(t, c)
	f.MustSend(vhostuser.SetFeatures, vhostusertest.Word(f.Realize(17)))
	f.MustQuery(vhostuser.GetFeatures) // its answer comes after SetFeatures was handled
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

// TestDeviceOutlivesFailedStarts: a front end that goes before a driver took the device leaves it
// to the next one. While one is served a second one is refused. The device process ends with the VM
// whose driver took the device, and removes its socket.
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

// TestTroubleIsTold: the control socket reports what is wrong with the VM, until the next front end
// connects.
func TestTroubleIsTold(t *testing.T) {
	dir := t.TempDir()
	control, log := startDevice(t, dir)
	trouble := func(found, fix string) {
		t.Helper()
		within(t, found+" is told: "+log.String(), func() bool {
			a, err := admin.Ask(control, admin.Request{Stats: true})
			return err == nil && len(a.Trouble) == 1 &&
				strings.Contains(a.Trouble[0].Found, found) &&
				strings.Contains(a.Trouble[0].Fix, fix)
		})
	}
	f := vhostusertest.NewFrontend(t, dial(t, filepath.Join(dir, "vm-1.sock")))
	f.Realize(5)
	trouble("leaves 4 of 16", "num_vqs=17")
	code, out, said := ranBy(t, "stats", control)
	if code != 0 || !strings.Contains(out, "\ntrouble: the front end has fewer queues") {
		t.Errorf("exit code %d, %q, %q", code, out, said)
	}
	_, _ = f.Sock.Write([]byte("no message of vhost-user's"))
	trouble("the connection to QEMU broke: ", "start the VM again")
	// QEMU without share=on passes memory of its own, which the guest never writes.
	f = vhostusertest.NewFrontend(t, dial(t, filepath.Join(dir, "vm-1.sock")))
	offered := f.Realize(17) &^ vhostuser.FeatureLogAll
	f.MustSend(vhostuser.SetFeatures, vhostusertest.Word(offered))
	guest := virtqueuetest.NewGuest(t, virtqueuetest.Span{Size: 8 << 20})
	f.SetMemory(guest)
	guest.Alloc(4096, 4096)
	f.Start(vhostusertest.NewQueue(t, guest, 0, 64))
	trouble("memory is not shared", "share=on")
}
