// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/internal/leaks"
)

const (
	enterVariable = "PARACUDA_TEST_CGROUP"
	boundVariable = "PARACUDA_TEST_CGROUP_BOUND"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(enterVariable); dir != "" {
		b := Bounds{}
		if text := os.Getenv(boundVariable); text != "" {
			if err := b.Set(text); err != nil {
				fmt.Println(err)
			}
		}
		if err := Enter(dir, b); err != nil {
			fmt.Println(err)
		}
		text, _ := os.ReadFile("/proc/self/cgroup")
		fmt.Printf("%s", text)
		os.Exit(0)
	}
	os.Exit(leaks.Main(m))
}

// fake makes a folder that looks like a control group.
func fake(t *testing.T, controllers string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "parent", "vm")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(Names(), "cgroup.procs") {
		put(t, dir, name, "")
	}
	put(t, dir, "cgroup.controllers", controllers+"\n")
	put(t, filepath.Dir(dir), "cgroup.subtree_control", "")
	return dir
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func bounds(t *testing.T, all ...string) Bounds {
	t.Helper()
	b := Bounds{}
	for _, text := range all {
		if err := b.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestEnter(t *testing.T) {
	dir := fake(t, "cpu io memory pids")
	b := bounds(t, "memory.max=2G", "pids.max=max", "cpu.weight=50", "io.weight=200")
	if err := Enter(dir, b); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"memory.max": "2147483648", "pids.max": "max", "cpu.weight": "50", "io.weight": "200",
		"cgroup.procs": "0",
	} {
		if got := get(t, dir, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestNothingElseIsTouched: what isn't bounded stays as it is, and the parent is asked for nothing.
func TestNothingElseIsTouched(t *testing.T) {
	dir := fake(t, "")
	if err := Enter(dir, Bounds{}); err != nil {
		t.Fatal(err)
	}
	asked := get(t, filepath.Dir(dir), "cgroup.subtree_control")
	if asked != "" || get(t, dir, "memory.max") != "" {
		t.Error("something was written")
	}
}

// TestParentPassesOn: the parent is asked for a controller that the group lacks.
func TestParentPassesOn(t *testing.T) {
	dir := fake(t, "cpu")
	if err := Enter(dir, bounds(t, "cpu.weight=50", "pids.max=40")); err != nil {
		t.Fatal(err)
	}
	if got := get(t, filepath.Dir(dir), "cgroup.subtree_control"); got != "+pids" {
		t.Errorf("asked for %q", got)
	}
}

// TestErrorsNameTheFix, whatever is missing.
func TestErrorsNameTheFix(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"no parent": {func(dir string) error { return os.RemoveAll(filepath.Dir(dir)) },
			"Delegate=yes"},
		"no cgroup2": {func(dir string) error { return os.Remove(dir + "/cgroup.procs") },
			"below /sys/fs/cgroup"},
		"not delegated": {func(dir string) error {
			return os.Remove(filepath.Dir(dir) + "/cgroup.subtree_control")
		}, "echo +memory >"},
		"no file": {func(dir string) error {
			return os.Remove(dir + "/pids.max")
		}, "no pids.max"},
	} {
		dir := fake(t, "pids")
		if err := c.spoil(dir); err != nil {
			t.Fatal(err)
		}
		b := bounds(t, "pids.max=40")
		if name == "not delegated" {
			b = bounds(t, "memory.max=1G")
		}
		err := Enter(dir, b)
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestSet(t *testing.T) {
	for _, text := range []string{
		"", "memory.max", "memory.max=", "memory.max=0", "memory.max=x", "memory.high=1G",
		"pids.max=0", "pids.max=-1", "cpu.weight=0", "cpu.weight=10001", "io.weight=max",
		"../x=1",
	} {
		if b := (Bounds{}); b.Set(text) == nil || len(b) > 0 {
			t.Errorf("%q is taken: %v", text, b)
		}
	}
}

// mounted returns where the kernel's groups are, and whether they can bound processes.
func mounted() (root string, bounds bool) {
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		has, err := os.ReadFile(root + "/cgroup.controllers")
		if err == nil {
			return root, slices.Contains(strings.Fields(string(has)), "pids")
		}
	}
	return "", false
}

// TestKernel has a process enter a group of the kernel's.
func TestKernel(t *testing.T) {
	root, bounds := mounted()
	if root == "" {
		t.Skip("no cgroup2 is mounted where it mostly is")
	}
	dir := filepath.Join(root, fmt.Sprint("paracuda-test-", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no group can be made: %v", err)
	}
	defer os.Remove(dir)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), enterVariable+"="+dir)
	if bounds {
		c.Env = append(c.Env, boundVariable+"=pids.max=40")
	}
	out, err := c.Output()
	if err != nil || !strings.Contains(string(out), "0::/"+filepath.Base(dir)+"\n") {
		t.Errorf("%v: %s", err, out)
	}
	if !bounds {
		t.Skipf("entered, but unbounded: %s has no controller pids", root)
	}
	if got := get(t, dir, "pids.max"); got != "40\n" {
		t.Errorf("pids.max is %q", got)
	}
}
