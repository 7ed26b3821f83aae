// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"os"
	"os/exec"
	"syscall"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// Machine is the host that this process runs on.
func Machine() *Host {
	return &Host{
		Open: openBoth, Limit: hardLimit, Memfd: makeMemfd, UserNamespace: tryUserNamespace,
		Landlock: landlockVersion,
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

func makeMemfd() error {
	fd, err := unix.MemfdCreate("paracuda doctor", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Ftruncate(fd, 1<<20)
}

// tryUserNamespace starts a program in one, as device processes start the one that starts workers.
func tryUserNamespace() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/true")
	c.SysProcAttr = &syscall.SysProcAttr{}
	sandbox.InUserNamespace(c.SysProcAttr)
	return c.Run()
}

func landlockVersion() int {
	n, err := landlock.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return n
}
