// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// allow is the fix where a filter around this process refuses a system call: that of a container,
// or of a service.
func allow(call string) string {
	return fmt.Sprintf("allow the system call %s: docker run --security-opt seccomp=unconfined, "+
		"or SystemCallFilter= of the service", call)
}

// filtered says whether this process has a filter of system calls, on the host whose files are
// below root.
func filtered(root string) bool {
	text, _ := os.ReadFile(filepath.Join(root, "/proc/self/status"))
	return strings.Contains(string(text), "\nSeccomp:\t2\n")
}

// Memfd is the fix where memory that processes share can't be made.
func Memfd(root string, err error) string {
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return Descriptors
	case filtered(root):
		return allow("memfd_create")
	case errors.Is(err, unix.EACCES): // Linux 6.3 to 6.5, which don't let anybody lower it
		return "set vm.memfd_noexec=0 in /etc/sysctl.d and reboot"
	}
	return "install a kernel with CONFIG_MEMFD_CREATE"
}

// Seccomp is the fix where system calls can't be filtered.
func Seccomp(root string) string {
	if filtered(root) {
		return allow("seccomp") + ", or use --sandbox off"
	}
	return "install a kernel of 4.14 or later with CONFIG_SECCOMP_FILTER, or use --sandbox off"
}

// Landlock is the fix where a process can't give up files, by the error of asking for that.
func Landlock(root string, err error) string {
	text, _ := os.ReadFile(filepath.Join(root, "/sys/kernel/security/lsm"))
	active := strings.TrimSpace(string(text))
	switch {
	case errors.Is(err, unix.EOPNOTSUPP) && active == "":
		return "add landlock to lsm= on the kernel's command line"
	case errors.Is(err, unix.EOPNOTSUPP):
		return "add lsm=landlock," + active + " to the kernel's command line"
	case filtered(root):
		return allow("landlock_create_ruleset")
	}
	return "install a kernel of 5.13 or later with CONFIG_SECURITY_LANDLOCK"
}
