// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// Starter starts children that have no capabilities and can't get any.
type Starter struct {
	requests chan request
}

type request struct {
	command *exec.Cmd
	started chan<- error
}

// NewStarter makes a Starter. prepare runs on its thread first, with all privileges: children
// inherit what it changes of the thread. missing says which rights the process couldn't take away;
// children are started all the same.
func NewStarter(prepare func() error) (s *Starter, missing, err error) {
	s = &Starter{requests: make(chan request)}
	type ready struct{ missing, err error }
	is := make(chan ready)
	go onOwnThread(func() {
		err := prepare()
		var missing error
		if err == nil {
			missing, err = dropPrivileges()
		}
		is <- ready{missing, err}
		if err != nil {
			return
		}
		for r := range s.requests {
			r.started <- r.command.Start()
		}
	})
	r := <-is
	if r.err != nil {
		return nil, nil, fmt.Errorf("prepare to start children: %w", r.err)
	}
	return s, r.missing, nil
}

// onOwnThread runs f on a thread on which no other goroutine runs, before or after. It isn't the
// process's first thread, whose rights are shown as those of the process. The thread lives as long
// as the process, so that children which end with it don't end earlier.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	has := make(chan struct{})
	go onOwnThread(func() { close(has); f() })
	<-has
	runtime.UnlockOSThread()
}

// Start starts a command, like exec.Cmd's Start.
func (s *Starter) Start(c *exec.Cmd) error {
	started := make(chan error)
	s.requests <- request{c, started}
	return <-started
}

// dropPrivileges takes from the calling thread what its children would inherit. A child that runs
// as root has the capabilities of the bounding set, one of another user those of files that it
// executes, unless new privileges are ruled out (capabilities(7)).
func dropPrivileges() (missing, err error) {
	missing, err = forgo(func(option int, a, b uintptr) error {
		return unix.Prctl(option, a, b, 0, 0)
	}, [2]uint32{})
	if err != nil {
		return nil, err
	}
	return errors.Join(missing, dropInheritable()), nil
}

// dropInheritable empties the thread's inheritable set.
func dropInheritable() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("clear inheritable capabilities: %w", err)
	}
	return nil
}
