// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
)

// startDeviceCommand runs `paracuda device` in this process, and passes on how it ends.
func startDeviceCommand(args ...string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		// A sandbox would confine the tests' own process.
		ended <- dispatch(append([]string{"device", "--gpu", "soft", "--log-level", "error",
			"--sandbox", "off"}, args...))
	}()
	return ended
}

// wait returns how a command ended.
func wait(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it has not ended")
		return nil
	}
}

// TestBadOutputs names files and sockets that can't be made. The device process must notice that
// as it starts: nothing connects to it.
func TestBadOutputs(t *testing.T) {
	dir := t.TempDir()
	gpu, control, file := filepath.Join(dir, "gpu"), filepath.Join(dir, "control"),
		filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", control)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	long := filepath.Join(dir, strings.Repeat("x", 108))
	for _, tt := range []struct{ option, value, want string }{
		{"--trace", "/nowhere/t", "--trace /nowhere/t: its folder isn't there: mkdir -p /nowhere"},
		{"--stats", "/nowhere/s", "--stats /nowhere/s: its folder isn't there: mkdir -p /nowhere"},
		{"--control", "/nowhere/c",
			"--control /nowhere/c: its folder isn't there: mkdir -p /nowhere"},
		{"--stats", file + "/s", file + " is no folder: choose another path"},
		{"--control", control,
			"socket " + control +
				" is in use: stop the process that serves it, or choose another path"},
		{"--control", file, "--control: " + file + " exists and is no socket: choose another path"},
		{"--control", long, "and that of a socket 107 at most: " + long},
	} {
		err := wait(t, startDeviceCommand("--socket-path", gpu, tt.option, tt.value))
		if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("%s %s: %v, want %s", tt.option, tt.value, err, tt.want)
		}
	}
	for path, want := range map[string]string{control: "is in use", file: "is no socket",
		long: "107 at most", "/nowhere/s": "mkdir -p /nowhere"} {
		if err := wait(t, startDeviceCommand("--socket-path", path)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("--socket-path %s: %v, want %s", path, err, want)
		}
	}
}

// TestControlBeforeTheVM changes a setting and asks for the counters before a VM has connected.
// Then a VM connects and goes, and the device process ends.
func TestControlBeforeTheVM(t *testing.T) {
	dir := t.TempDir()
	gpu, control, stats := filepath.Join(dir, "gpu"), filepath.Join(dir, "control"),
		filepath.Join(dir, "stats")
	ended := startDeviceCommand("--socket-path", gpu, "--control", control, "--stats", stats)
	dial(t, gpu).Close() // no VM yet
	if _, err := admin.Ask(control, admin.Request{Set: "batch-commands=1"}); err != nil {
		t.Error(err)
	}
	if a, err := admin.Ask(control, admin.Request{Stats: true}); err != nil || len(a.Stats) == 0 {
		t.Errorf("the counters are %+v, %v", a, err)
	}
	use(t, dial(t, gpu)).Sock.Close()
	if err := wait(t, ended); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(stats); err != nil || !json.Valid(text) {
		t.Errorf("the counters at the end are %q, %v", text, err)
	}
}
