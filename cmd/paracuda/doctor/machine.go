// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/proclimit"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// Machine is the host that this process runs on.
func Machine() *Host {
	return &Host{
		Open: openBoth, Limit: hardLimit, Memfd: proclimit.Memfd, UserNamespace: tryUserNamespace,
		Landlock: sandbox.Landlock, Filter: sandbox.CanFilter,
	}
}

func openBoth(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// hardLimit is what this process may have if it asks for it.
func hardLimit(resource int) (uint64, error) {
	var l unix.Rlimit
	err := unix.Getrlimit(resource, &l)
	return l.Max, err
}

// tryUserNamespace starts a program in a user namespace, as device processes start their starter.
func tryUserNamespace() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/true")
	c.SysProcAttr = &syscall.SysProcAttr{}
	if err := sandbox.InUserNamespace(c.SysProcAttr); err != nil {
		return err
	}
	return c.Run()
}
