// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/paracuda/paracuda/internal/leaks"
)

// childVariable makes this program make a directory, print its path, and wait to be killed.
const childVariable = "SCRATCH_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(leaks.Main(m))
	}
	d, err := New()
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path, "file"), nil, 0o600); err != nil {
		panic(err)
	}
	os.Stdout.WriteString(d.Path + "\n")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // for ever
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func mustNew(t *testing.T) *Dir {
	t.Helper()
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Remove() })
	return d
}

// TestKilledProcessLeavesNothing for longer than until the next one starts.
func TestKilledProcessLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childVariable+"=1")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	path, err := bufio.NewReader(out).ReadString('\n')
	if path = strings.TrimSpace(path); err != nil || !exists(path) {
		t.Fatalf("%q: %v", path, err)
	}
	mustNew(t)
	if !exists(filepath.Join(path, "file")) {
		t.Fatal("the directory of a process that lives is gone")
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if !exists(path) {
		t.Fatal("a process that was killed has removed its directory")
	}
	mustNew(t)
	if exists(path) {
		t.Error("the directory of a process that was killed is left")
	}
}

// TestOtherThingsStay that are not directories of this program's.
func TestOtherThingsStay(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	target := filepath.Join(tmp, "target")
	if err := os.Mkdir(target, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(tmp, prefix+"link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tmp, prefix+"file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := mustNew(t)
	for _, name := range []string{"target", prefix + "link", prefix + "file"} {
		if !exists(filepath.Join(tmp, name)) {
			t.Errorf("%s is gone", name)
		}
	}
	if err := d.Remove(); err != nil || exists(d.Path) {
		t.Errorf("remove: %v", err)
	}
}

// TestManyAtOnce: none takes another's directory for one that was left.
func TestManyAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range 50 {
				d, err := New()
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(d.Path, "file"), nil, 0o600); err != nil {
					t.Error(err)
				}
				if err := d.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}
