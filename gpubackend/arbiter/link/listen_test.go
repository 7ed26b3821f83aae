// SPDX-License-Identifier: Apache-2.0

package link

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/socket"
)

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "arbiter.sock")
	l, err := Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	is, err := os.Lstat(path)
	if err != nil || is.Mode().Perm() != socket.GroupMode {
		t.Errorf("mode %v, %v", is.Mode(), err)
	}
	if _, err := Listen(path, ""); err == nil || !strings.Contains(err.Error(), "runs at") {
		t.Errorf("a second one: %v", err)
	}
	l.SetUnlinkOnClose(false) // as after kill -9
	l.Close()
	if l, err = Listen(path, ""); err != nil {
		t.Fatalf("after one that died: %v", err)
	}
	l.Close()
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket of one that ended is left")
	}
}

func TestListenMistakes(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(in("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(in("open"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(in("open"), 0o777); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", in("other"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for want, c := range map[string]struct{ path, group string }{
		"is no socket":             {path: in("file")},
		"another program's socket": {path: in("other")},
		"everybody can write":      {path: in("open/arbiter.sock")},
		"path is too long":         {path: in(strings.Repeat("x", 120))},
		"the host has no":          {path: in("a"), group: "no-such-group"},
		"not a directory":          {path: in("file/arbiter.sock")},
	} {
		l, err := Listen(c.path, c.group)
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", c, err, want)
		}
	}
}

// TestListenPermission has a folder that belongs to another user.
func TestListenPermission(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	_, err := Listen(filepath.Join(dir, "arbiter.sock"), "")
	if err == nil || !strings.Contains(err.Error(), "is user 12345's") {
		t.Errorf("%v", err)
	}
}
