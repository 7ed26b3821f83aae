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
)

// TestDeviceOutlivesItsTerminal does to a device process what happens when its terminal is closed:
// no one reads its log any more, and it gets SIGHUP. It goes on logging and serving until SIGTERM.
func TestDeviceOutlivesItsTerminal(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "device")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(paracuda, "device", "--gpu", "soft", "--socket-path", socket)
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill()
	w.Close()
	if _, err := r.Read(make([]byte, 1)); err != nil { // its first line: it waits for a front end
		t.Fatal(err)
	}
	r.Close()
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for range 3 { // each leaves lines in the log
		var c net.Conn
		for w := patienceOf(10 * time.Second); c == nil; time.Sleep(10 * time.Millisecond) {
			if c, err = net.Dial("unix", socket); err != nil && w.over() {
				t.Fatal(err)
			}
		}
		c.Close()
		select {
		case err := <-ended:
			t.Fatalf("the device process has ended: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	switch in, err := endsIn(ended, 20*time.Second); {
	case !in:
		t.Error("the device process doesn't end after SIGTERM")
	case err != nil:
		t.Errorf("after SIGTERM the device process ended with %v, want 0", err)
	}
}
