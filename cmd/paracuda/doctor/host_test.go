// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// files are the contents of files by their names. A content that begins with -> is a link's target.
type files map[string]string

// put writes files below a new directory, and returns it.
func put(t *testing.T, all files) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range all {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(text, "->"); link {
			err = os.Symlink(to, path)
		} else if err = os.WriteFile(path, []byte(text), 0o755); err == nil {
			err = os.Chmod(path, 0o777)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// healthy is a host on which nothing is wrong.
func healthy(root string) *Host {
	return &Host{
		Root:          root,
		Open:          func(string) error { return nil },
		Limit:         func(int) (uint64, error) { return math.MaxUint64, nil },
		Memfd:         func() error { return nil },
		UserNamespace: func() error { return nil },
		Landlock:      func() (int, error) { return 5, nil },
		Filter:        func() error { return nil },
	}
}

// want compares a finding with what it should be. All but those that are OK have a fix.
func want(t *testing.T, f Finding, level Level, found, fix string) {
	t.Helper()
	if f.Level != level || !strings.Contains(f.Found, found) || !strings.Contains(f.Fix, fix) ||
		(f.Level == OK) != (f.Fix == "") {
		t.Errorf("%+v, want %s, %q, %q", f, level, found, fix)
	}
}

// goodKernel are the kernel's files where nothing is wrong.
var goodKernel = files{
	"/proc/sys/vm/max_map_count":   "65530\n",
	"/proc/sys/kernel/pid_max":     "4194304\n",
	"/proc/self/cgroup":            "1:other:/x\n0::/user\n",
	"/sys/fs/cgroup/user/pids.max": "max\n",
	"/proc/sys/kernel/osrelease":   "6.1.0\n",
}

// with are the files of goodKernel and more. The latter replace the former.
func with(more files) files {
	all := files{}
	for _, some := range []files{goodKernel, more} {
		for name, text := range some {
			all[name] = text
		}
	}
	return all
}

// TestKernel breaks the things that the kernel offers, one at a time.
func TestKernel(t *testing.T) {
	denied := &fs.PathError{Op: "open", Path: "x", Err: unix.EACCES}
	absent := &fs.PathError{Op: "open", Path: "x", Err: unix.ENOENT}
	look := func(f func(*Host, context.Context) Finding) func(*Host) Finding {
		return func(h *Host) Finding { return f(h, context.Background()) }
	}
	for _, tt := range []struct {
		name       string
		check      func(*Host) Finding
		files      files
		breaks     func(*Host)
		level      Level
		found, fix string
	}{
		{"KVM", look((*Host).kvm), nil, func(h *Host) {}, OK, "can be used", ""},
		{"KVM in software", look((*Host).kvm), files{"/proc/cpuinfo": "flags : fpu hypervisor\n"},
			nil, Warning, "neither VMX nor SVM", "lscpu"},
		{"no KVM", look((*Host).kvm), nil, func(h *Host) {
			h.Open = func(string) error { return absent }
		}, Warning, "emulated", "modprobe"},
		{"KVM for others", look((*Host).kvm), nil, func(h *Host) {
			h.Open = func(string) error { return denied }
		}, Problem, "no permission for /dev/kvm", "usermod -aG kvm"},
		{"broken KVM", look((*Host).kvm), nil, func(h *Host) {
			h.Open = func(string) error { return unix.EBUSY }
		}, Problem, "busy", "modprobe"},
		{"memfd", look((*Host).sharedMemory), nil, func(h *Host) {}, OK, "memfd", ""},
		{"no memfd", look((*Host).sharedMemory), nil, func(h *Host) {
			h.Memfd = func() error { return unix.ENOSYS }
		}, Problem, "not implemented", "CONFIG_MEMFD_CREATE"},
		{"mappings", look((*Host).mappings), nil, func(h *Host) {}, OK, "65530", ""},
		{"few mappings", look((*Host).mappings), files{"/proc/sys/vm/max_map_count": "1024\n"}, nil,
			Warning, "1024", "sysctl -w vm.max_map_count"},
		{"odd mappings", look((*Host).mappings), files{"/proc/sys/vm/max_map_count": "many\n"}, nil,
			Warning, "many", "sysctl"},
		{"files", look((*Host).descriptors), nil, limited(unix.RLIMIT_NPROC, 1), OK, "files", ""},
		{"few files", look((*Host).descriptors), nil, limited(unix.RLIMIT_NOFILE, 1024),
			Warning, "1024", "ulimit -Hn"},
		{"unknown files", look((*Host).descriptors), nil, func(h *Host) {
			h.Limit = func(int) (uint64, error) { return 0, unix.EPERM }
		}, Warning, "not known", "ulimit -Hn"},
		{"processes", look((*Host).processesLimit), nil, nil, OK, "unlimited", ""},
		{"few processes", look((*Host).processesLimit), nil, limited(unix.RLIMIT_NPROC, 100),
			Warning, "100", "ulimit -u"},
		{"few numbers", look((*Host).processesLimit), files{"/proc/sys/kernel/pid_max": "301\n"},
			nil, Warning, "301", "kernel.pid_max"},
		{"full group", look((*Host).processesLimit), files{
			"/sys/fs/cgroup/user/pids.max": "2000\n", "/sys/fs/cgroup/user/pids.current": "1500\n",
		}, nil, Warning, "room for 500", "/sys/fs/cgroup/user/pids.max"},
		{"namespaces", look((*Host).userNamespaces), nil, nil, OK, "can", ""},
		{"no namespaces", look((*Host).userNamespaces), nil, noNamespace,
			Warning, "no space", "user.max_user_namespaces"},
		{"Debian's namespaces", look((*Host).userNamespaces),
			files{"/proc/sys/kernel/unprivileged_userns_clone": "0\n"}, noNamespace,
			Warning, "no space", "unprivileged_userns_clone=1"},
		{"Ubuntu's namespaces", look((*Host).userNamespaces),
			files{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, noNamespace,
			Warning, "no space", "apparmor_restrict_unprivileged_userns=0"},
		{"Landlock", look((*Host).landlock), nil, nil, OK, "version 5", ""},
		{"old kernel", look((*Host).landlock), nil, func(h *Host) {
			h.Landlock = func() (int, error) { return 0, unix.ENOSYS }
		}, Warning, "not implemented", "5.13"},
		{"no Landlock", look((*Host).landlock),
			files{"/sys/kernel/security/lsm": "capability,yama"}, func(h *Host) {
				h.Landlock = func() (int, error) { return 0, unix.EOPNOTSUPP }
			}, Warning, "not supported", "lsm=landlock,capability,yama"},
		{"seccomp", look((*Host).seccomp), nil, nil, OK, "can be filtered", ""},
		{"no seccomp", look((*Host).seccomp), nil, func(h *Host) {
			h.Filter = func() error { return unix.ENOSYS }
		}, Problem, "can't be filtered", "CONFIG_SECCOMP_FILTER"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := healthy(put(t, with(tt.files)))
			if tt.breaks != nil {
				tt.breaks(h)
			}
			want(t, tt.check(h), tt.level, tt.found, tt.fix)
		})
	}
}

// limited bounds one resource.
func limited(resource int, n uint64) func(*Host) {
	return func(h *Host) {
		h.Limit = func(asked int) (uint64, error) {
			if asked == resource {
				return n, nil
			}
			return math.MaxUint64, nil
		}
	}
}

func noNamespace(h *Host) {
	h.UserNamespace = func() error { return errors.New("no space left on device") }
}

// TestMachine asks the real machine. What depends on its kernel is only logged.
func TestMachine(t *testing.T) {
	h := Machine()
	if err := h.Memfd(); err != nil {
		t.Error(err)
	}
	if _, err := h.Limit(unix.RLIMIT_NOFILE); err != nil {
		t.Error(err)
	}
	if err := h.Open("/dev/null"); err != nil {
		t.Error(err)
	}
	if err := h.Open("/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	version, err := h.Landlock()
	t.Logf("Landlock %d, %v; filters: %v; user namespaces: %v", version, err, h.Filter(),
		h.UserNamespace())
}
