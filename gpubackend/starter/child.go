// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// childProgram is a child that is a program.
type childProgram struct {
	*exec.Cmd
	fd int
}

// Execute starts a program as a child. start starts it.
func Execute(c *exec.Cmd, run func(*exec.Cmd) error) (Child, error) {
	child := childProgram{Cmd: c, fd: -1}
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.PidFD = &child.fd
	err := run(c)
	return child, err
}

func (c childProgram) PID() int        { return c.Process.Pid }
func (c childProgram) Descriptor() int { return c.fd }

// Wait returns when the child is gone, and says how it ended.
func (c childProgram) Wait() error { return Await(c.Cmd) }

// signaled is the end of a process by a signal.
type signaled struct {
	error
	by syscall.Signal
}

// EndedBy is that signal, for whoever logs the end.
func (e signaled) EndedBy() syscall.Signal { return e.by }

// Await waits for a program's end and says how it ended. If a filter of system calls has ended it,
// the error says what to do.
func Await(c *exec.Cmd) error {
	err := c.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return err
	}
	if status.Signal() == syscall.SIGSYS {
		err = fmt.Errorf("%w: its sandbox doesn't know this call (docs/system-calls.md); the "+
			"kernel's log has its number, and --sandbox off runs without", err)
	}
	return signaled{err, status.Signal()}
}
