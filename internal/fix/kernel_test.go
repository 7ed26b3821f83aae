// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKernelLacks: the fix depends on whether the kernel lacks something, was told to leave it out,
// or has a filter that refuses it.
func TestKernelLacks(t *testing.T) {
	const (
		free     = "Name:\tx\nSeccomp:\t0\n"
		filtered = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"
	)
	for _, tt := range []struct {
		name, status, lsm string
		err               error
		fix               func(root string, err error) string
		want              string
	}{
		{"memfd not executable", free, "", unix.EACCES, Memfd, "vm.memfd_noexec=0 in /etc"},
		{"memfd refused", filtered, "", unix.EPERM, Memfd, "allow the system call memfd_create"},
		{"no memfd", free, "", unix.ENOSYS, Memfd, "CONFIG_MEMFD_CREATE"},
		{"memfds without end", free, "", unix.EMFILE, Memfd, Descriptors},
		{"no seccomp", free, "", unix.ENOSYS, seccomp, "CONFIG_SECCOMP_FILTER"},
		{"seccomp refused", filtered, "", unix.EPERM, seccomp, "allow the system call seccomp"},
		{"no Landlock", free, "yama", unix.ENOSYS, Landlock, "CONFIG_SECURITY_LANDLOCK"},
		{"Landlock refused", filtered, "landlock,yama", unix.ENOSYS, Landlock,
			"allow the system call landlock_create_ruleset"},
		{"Landlock left out", filtered, "yama\n", unix.EOPNOTSUPP, Landlock,
			"add lsm=landlock,yama to"},
		{"where nobody knows", free, "", unix.EOPNOTSUPP, Landlock, "add landlock to lsm="},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range map[string]string{
				"proc/self/status": tt.status, "sys/kernel/security/lsm": tt.lsm,
			} {
				file := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got := tt.fix(root, fmt.Errorf("call: %w", tt.err))
			if !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func seccomp(root string, _ error) string { return Seccomp(root) }
