// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device"
)

// spawner starts this program in the roles of worker and mover.
type spawner struct {
	logs   logFlags
	log    *logrus.Entry
	stderr *os.File // of the children
	start  start
}

// unranked says once that the kernel doesn't know in which order to kill: a guest can start as many
// workers as it likes.
var unranked sync.Once

// controlFD is the descriptor under which a child finds its control connection.
const controlFD = 3

func (s spawner) Worker(control *os.File) (device.Process, error) {
	return s.spawn("worker", control)
}

func (s spawner) Mover(control *os.File) (device.Process, error) {
	return s.spawn("mover", control)
}

// spawn starts a role. Both lay out their address spaces alike, though only workers need it.
func (s spawner) spawn(role string, control *os.File) (device.Process, error) {
	args := append([]string{role, "--sandbox", s.start.sandbox.String()}, s.logs.args()...)
	if s.start.watched {
		args = append(args, "--watched")
	}
	c := exec.Command(self(), args...)
	c.ExtraFiles = []*os.File{control}
	c.Stderr = s.stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	c.Env = s.start.environment
	if err := s.start.run(c); err != nil {
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	if err := goFirst(c.Process.Pid, role); err != nil {
		unranked.Do(func() {
			s.log.WithError(err).Warnf("a %s may outlive other processes when the host has no memory left", role)
		})
	}
	return child{c}, nil
}

// child is a process that spawner started.
type child struct{ c *exec.Cmd }

func (c child) Kill()       { _ = c.c.Process.Kill() }
func (c child) Wait() error { return c.c.Wait() }

// PID is the process's, by which the GPU's driver knows it.
func (c child) PID() int { return c.c.Process.Pid }
