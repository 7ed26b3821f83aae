// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestMaxPath asks the kernel.
func TestMaxPath(t *testing.T) {
	for n, fits := range map[int]bool{MaxPath: true, MaxPath + 1: false} {
		t.Chdir(t.TempDir())
		name := strings.Repeat("x", n)
		l, err := net.Listen("unix", name)
		if (err == nil) != fits {
			t.Errorf("a path of %d bytes: %v", n, err)
		}
		if err == nil {
			l.Close()
		}
	}
}

func TestFindGroup(t *testing.T) {
	if g, err := FindGroup(""); g != None || err != nil {
		t.Errorf("no name: %d, %v", g, err)
	}
	g, err := FindGroup("no-such-group")
	if g != None || err == nil || !strings.Contains(err.Error(), "no-such-group: the host has no") {
		t.Errorf("no such group: %d, %v", g, err)
	}
	own, err := user.LookupGroupId(strconv.Itoa(os.Getgid()))
	if err != nil {
		t.Skipf("the test's own group has no name: %v", err)
	}
	if g, err := FindGroup(own.Name); int(g) != os.Getgid() || err != nil {
		t.Errorf("%s: %d, %v", own.Name, g, err)
	}
}

func TestGive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := None.Give(path); err != nil {
		t.Errorf("to nobody: %v", err)
	}
	if err := Group(os.Getgid()).Give(path); err == nil {
		t.Error("what isn't there was given away")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Group(os.Getgid()).Give(path); err != nil {
		t.Error(err)
	}
	is, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if gid := is.Sys().(*syscall.Stat_t).Gid; int(gid) != os.Getgid() {
		t.Errorf("group %d", gid)
	}
}
