// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
)

// TestNobodyInherits: whoever starts a VM's device has secrets in the environment, and has left a
// file, a socket and a folder open. With a keeper and without one, none of the VM's processes has
// any of it: of the environment they have what CUDA and they themselves read, and what the operator
// names.
func TestNobodyInherits(t *testing.T) {
	for _, keeper := range []string{"on", "off"} {
		t.Run("keeper "+keeper, func(t *testing.T) {
			left, names := leftOpen(t)
			g := startedBy(t, func(c *exec.Cmd) {
				c.Args = append(c.Args, "--keeper", keeper, "--pass-env", "HOSTILE_WANTED")
				c.Env = append(os.Environ(), "HOSTILE_SECRET=1", "HOSTILE_WANTED=2",
					"CUDA_HOSTILE=3", "LD_PRELOAD=", "AWS_SECRET_ACCESS_KEY=4")
				c.ExtraFiles = left
			})
			roles := map[string]bool{}
			for _, pid := range leaks.Family(g.process.Process.Pid) {
				p := process{pid: pid}
				p.role = strings.Split(p.file(t, "cmdline"), "\x00")[1]
				roles[p.role] = true
				checkVariables(t, p)
				for _, file := range p.files(t) {
					if names[file] {
						t.Errorf("process %d, a %s, has %s", pid, p.role, file)
					}
				}
			}
			for _, role := range []string{"device", "starter", "worker", "mover"} {
				if !roles[role] {
					t.Errorf("there is no %s: %v", role, roles)
				}
			}
		})
	}
}

// leftOpen opens files, and returns the kernel's names of them.
func leftOpen(t *testing.T) (files []*os.File, names map[string]bool) {
	t.Helper()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(ends[1])
	files = append(files, os.NewFile(uintptr(ends[0]), "socket"))
	for _, path := range []string{dir, secret} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	names = map[string]bool{}
	for _, f := range files {
		t.Cleanup(func() { f.Close() })
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		names[name] = true
	}
	return files, names
}

// read matches the variables that the VM's processes may have.
var read = regexp.MustCompile(`^((CUDA|NVIDIA|NV)_\w+|LD_LIBRARY_PATH|HOME|PATH|TMPDIR|LANG|TZ|` +
	`GODEBUG|GOMAXPROCS|GOTRACEBACK|GOGC|GORACE|GOCOVERDIR|JOURNAL_STREAM|XDG_RUNTIME_DIR|` +
	`HOSTILE_WANTED)=`)

func checkVariables(t *testing.T, p process) {
	t.Helper()
	has := map[string]bool{}
	for _, v := range strings.Split(strings.TrimRight(p.file(t, "environ"), "\x00"), "\x00") {
		has[v] = true
		if !read.MatchString(v) {
			name, _, _ := strings.Cut(v, "=")
			t.Errorf("process %d, a %s, has the variable %q", p.pid, p.role, name)
		}
	}
	if !has["CUDA_HOSTILE=3"] {
		t.Errorf("process %d, a %s, lacks what CUDA reads", p.pid, p.role)
	}
	if !has["HOSTILE_WANTED=2"] && p.role != "init" {
		t.Errorf("process %d, a %s, lacks what the operator has named", p.pid, p.role)
	}
}

// files are the kernel's names of what a process has open.
func (p process) files(t *testing.T) (names []string) {
	t.Helper()
	links, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", p.pid, link.Name()))
		if err == nil { // otherwise it has just been closed
			names = append(names, name)
		}
	}
	return names
}
