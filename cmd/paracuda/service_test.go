// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/cmd/paracuda/process"
)

func TestSocketsAccess(t *testing.T) {
	group := strconv.Itoa(os.Getgid())
	if out, err := exec.Command("id", "-gn").Output(); err == nil {
		group = strings.TrimSpace(string(out))
	}
	for _, tt := range []struct {
		group, mode string
		want        fs.FileMode
	}{{mode: "0600", want: 0o600}, {group: group, want: 0o660}, {group, "0666", 0o666}} {
		a := socketAccess{group: tt.group}
		if tt.mode != "" {
			if err := a.setMode(tt.mode); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(t.TempDir(), "s")
		l, err := listen("--socket-path", path, a)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != tt.want {
			t.Errorf("%+v: mode %v, %v", tt, info.Mode(), err)
		}
		if gid := info.Sys().(*syscall.Stat_t).Gid; tt.group != "" && int(gid) != os.Getgid() {
			t.Errorf("%+v: group %d", tt, gid)
		}
		l.Close()
	}
}

func TestSocketsAccessIsWrong(t *testing.T) {
	var a socketAccess
	for _, mode := range []string{"", "rw", "0", "1777", "0888", "-1"} {
		if err := a.setMode(mode); err == nil || a.mode != 0 {
			t.Errorf("mode %q: %v, %v", mode, a.mode, err)
		}
	}
	path := filepath.Join(t.TempDir(), "s")
	_, err := listen("--socket-path", path, socketAccess{group: "no-such-group"})
	if err == nil ||
		!strings.Contains(err.Error(), "--socket-group no-such-group: the host has no") {
		t.Errorf("error %v", err)
	}
}

// TestSystemdsSockets starts a device process as systemd does: with its sockets already made, and
// with one on which it reports that it is ready.
func TestSystemdsSockets(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	var files []*os.File
	for _, name := range []string{"control", "gpu"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: in(name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	notified, err := net.ListenUnixgram("unixgram",
		&net.UnixAddr{Name: in("notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notified.Close()
	// LISTEN_PID must be the process's own number. A shell knows its own, and exec keeps it.
	c := exec.Command("sh", "-c",
		`LISTEN_PID=$$ exec "$0" device --gpu soft --socket-mode 0601`, process.Self())
	c.Env = append(os.Environ(), "LISTEN_FDS=2", "LISTEN_FDNAMES=control:gpu",
		"NOTIFY_SOCKET="+in("notify"))
	c.ExtraFiles = files
	c.Stderr, c.SysProcAttr = os.Stderr, endsWithTest()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	_ = notified.SetReadDeadline(time.Now().Add(30 * time.Second))
	b := make([]byte, 100)
	if n, err := notified.Read(b); err != nil || string(b[:n]) != "READY=1" {
		t.Fatalf("%q, %v", b[:n], err)
	}
	stats := exec.Command(process.Self(), "stats", in("control"))
	if out, err := stats.CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "soft") {
		t.Errorf("stats: %q, %v", out, err)
	}
	if info, err := os.Stat(in("gpu")); err != nil || info.Mode().Perm() != 0o601 {
		t.Errorf("the front end's socket: %v, %v", info.Mode(), err)
	}
	conn, err := net.Dial("unix", in("gpu"))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("ended: %v", err)
	}
}
