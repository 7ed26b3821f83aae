// SPDX-License-Identifier: Apache-2.0

// Package fix names what fixes a host that lacks something: the command, or the setting. paracuda
// doctor names the same, and so does the line that says what didn't work where it was tried. It
// trusts the kernel's files, and changes nothing. The fixes for what a kernel lacks, or was told to
// leave out, are in kernel.go.
package fix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Fixes of bounds.
const (
	Processes = "raise the bound on processes: ulimit -u, TasksMax= of the service, " +
		"sysctl kernel.pid_max"
	Descriptors = "raise the bound on open files: ulimit -n, LimitNOFILE= of the service"
)

// Mappings raises how many mappings a process may have.
const Mappings = "sysctl -w vm.max_map_count=262144"

// KVM is the fix where its device can't be opened.
func KVM(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "usermod -aG kvm $USER"
	}
	return "modprobe -a kvm_intel kvm_amd"
}

// UserNamespaces is the fix where ordinary users can't make user namespaces, on the host whose
// files are below root.
func UserNamespaces(root string) string {
	is := func(name, value string) bool {
		text, err := os.ReadFile(filepath.Join(root, "/proc/sys/kernel", name))
		return err == nil && strings.TrimSpace(string(text)) == value
	}
	switch {
	case is("unprivileged_userns_clone", "0"):
		return "sysctl -w kernel.unprivileged_userns_clone=1"
	case is("apparmor_restrict_unprivileged_userns", "1"):
		return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	}
	return "sysctl -w user.max_user_namespaces=65536"
}

// Start adds a fix to an error of starting a process, if a bound was reached.
func Start(err error) error {
	switch {
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("%w: %s", err, Processes)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%w: %s", err, Descriptors)
	}
	return err
}
