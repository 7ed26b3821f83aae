// SPDX-License-Identifier: Apache-2.0

package starter

import (
	"os/exec"
	"syscall"
)

// command is a child that is a program.
type command struct {
	*exec.Cmd
	fd int
}

// Execute starts a program as a child, by what starts it.
func Execute(c *exec.Cmd, run func(*exec.Cmd) error) (Child, error) {
	child := command{Cmd: c, fd: -1}
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.PidFD = &child.fd
	err := run(c)
	return child, err
}

func (c command) PID() int        { return c.Process.Pid }
func (c command) Descriptor() int { return c.fd }
