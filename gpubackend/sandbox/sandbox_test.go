// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// status returns what /proc says of the process that a Starter starts.
func status(t *testing.T, s *Starter) map[string]string {
	t.Helper()
	c := exec.Command("cat", "/proc/self/status")
	var out bytes.Buffer
	c.Stdout = &out
	if err := s.Start(c); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for lines := bufio.NewScanner(&out); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

const none = "0000000000000000"

func TestChildrenHaveNoCapabilities(t *testing.T) {
	prepared := false
	s, missing, err := NewStarter(func() error { prepared = true; return nil })
	if err != nil || missing != nil || !prepared {
		t.Fatalf("prepared: %v; missing: %v; %v", prepared, missing, err)
	}
	for range 2 { // the second must not find what the first had
		is := status(t, s)
		for _, name := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			if is[name] != none {
				t.Errorf("%s is %s", name, is[name])
			}
		}
		if os.Getuid() == 0 && is["CapBnd"] != none {
			t.Errorf("CapBnd is %s", is["CapBnd"])
		}
		if is["NoNewPrivs"] != "1" {
			t.Error("new privileges aren't ruled out")
		}
	}
}

// TestTheProcessKeepsItsOwn: only children lose privileges.
func TestTheProcessKeepsItsOwn(t *testing.T) {
	before, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := NewStarter(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	find := func(status []byte, name string) string {
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, name) {
				return line
			}
		}
		return ""
	}
	for _, name := range []string{"CapEff", "CapBnd", "NoNewPrivs"} {
		if a, b := find(before, name), find(after, name); a != b || a == "" {
			t.Errorf("%q became %q", a, b)
		}
	}
}

func TestStarterThatCannotBePrepared(t *testing.T) {
	want := errors.New("no")
	if _, _, err := NewStarter(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("error %v", err)
	}
}

func TestStartFails(t *testing.T) {
	s, _, err := NewStarter(func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(exec.Command("/nowhere/nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	all := []string{
		"CUDA_VISIBLE_DEVICES=1", "AWS_SECRET_ACCESS_KEY=x", "HOME=/root", "HOMEPAGE=x",
		"LD_PRELOAD=/tmp/x.so", "NVIDIA_VISIBLE_DEVICES=all", "MINE=a=b", "CUDA=x", "LANG=C",
	}
	want := []string{
		"CUDA_VISIBLE_DEVICES=1", "HOME=/root", "NVIDIA_VISIBLE_DEVICES=all", "MINE=a=b", "LANG=C",
	}
	if got := Environment(all, []string{"MINE", "ABSENT"}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestInheritedDescriptorsAreKept from children: a descriptor that a careless parent has left open
// stays open in this process only.
func TestInheritedDescriptorsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "of-the-parent")
	fd, err := unix.Open(file, unix.O_CREAT|unix.O_RDONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	childHas := func() bool {
		out, err := exec.Command("ls", "-l", "/proc/self/fd").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(out), file)
	}
	listed := func(first int) bool {
		fds, err := Inherited(first)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(fds, fd)
	}
	if !childHas() || !listed(fd) || listed(fd+1) {
		t.Fatal("a child doesn't have it anyway, or it isn't listed")
	}
	if err := CloseInherited(fd); err != nil {
		t.Fatal(err)
	}
	if childHas() || listed(fd) {
		t.Error("a child has it")
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		t.Errorf("the process has lost its own: %v", err)
	}
}
