// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKVM(t *testing.T) {
	for err, want := range map[error]string{
		fs.ErrPermission: "usermod -aG kvm", fs.ErrNotExist: "modprobe", unix.EBUSY: "modprobe",
	} {
		if got := KVM(fmt.Errorf("open: %w", err)); !strings.HasPrefix(got, want) {
			t.Errorf("%v: %s", err, got)
		}
	}
}

func TestUserNamespaces(t *testing.T) {
	for file, want := range map[string]string{
		"unprivileged_userns_clone=0\n":             "unprivileged_userns_clone=1",
		"unprivileged_userns_clone=1\n":             "max_user_namespaces",
		"apparmor_restrict_unprivileged_userns=1\n": "apparmor_restrict_unprivileged_userns=0",
		"other=0": "max_user_namespaces",
	} {
		root := t.TempDir()
		name, text, _ := strings.Cut(file, "=")
		path := filepath.Join(root, "proc/sys/kernel", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		if got := UserNamespaces(root); !strings.Contains(got, want) {
			t.Errorf("%s: %s", file, got)
		}
	}
}

// TestStart: an error stays what it is, and says what to raise where that helps.
func TestStart(t *testing.T) {
	for errno, want := range map[error]string{
		unix.EAGAIN: Processes, unix.EMFILE: Descriptors, unix.ENFILE: Descriptors, unix.ENOENT: "",
	} {
		err := Start(fmt.Errorf("fork/exec: %w", errno))
		if !errors.Is(err, errno) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	if Start(nil) != nil {
		t.Error("none is one")
	}
}

// TestFull: Start knows the kernel's error for one open file too many.
func TestFull(t *testing.T) {
	c := exec.Command(os.Args[0], "-test.run", "^TestStartsOne$")
	c.Env = append(os.Environ(), "FIX_STARTS=1")
	out, _ := c.CombinedOutput()
	if !strings.Contains(string(out), Descriptors) {
		t.Errorf("%s", out)
	}
}

// TestStartsOne is a process that may open no more files, and starts another one.
func TestStartsOne(t *testing.T) {
	if os.Getenv("FIX_STARTS") == "" {
		return // for TestFull
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}); err != nil {
		t.Fatal(err)
	}
	fmt.Println(Start(exec.Command("/bin/true").Start()))
}
