// SPDX-License-Identifier: Apache-2.0

package children

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/sandbox/ownroot"
	"github.com/paracuda/paracuda/gpubackend/starter"
	"github.com/paracuda/paracuda/internal/fix"
)

// starts starts the processes of a VM.
type starts interface {
	device.Spawner
	Usage(control *os.File) (device.Process, error)
}

// start is how children are started, and with which environment.
type start struct {
	sandbox     cli.OnOff
	watched     bool // they must be dumpable, for this process to count their memory
	run         func(*exec.Cmd) error
	runOnHost   func(*exec.Cmd) error // for a child that must see the host's processes; nil: run
	alone       bool                  // what run starts has a PID namespace, and ends with it
	environment []string              // nil: this process's
	gpu         string                // of the VM
}

// runs is the function that starts a role.
func (s *start) runs(r starter.Role) func(*exec.Cmd) error {
	if r == starter.Usage && s.runOnHost != nil {
		return s.runOnHost
	}
	return s.run
}

// spawner starts this program in the roles of children.
type spawner struct {
	logs   logs.Flags
	log    *logrus.Entry
	stderr *os.File // of the children
	how    start
}

// unranked says that the kernel couldn't be told in which order to kill. It says so once, since a
// guest can start as many workers as it likes.
var unranked sync.Once

// ControlFD is the descriptor under which a child finds its control connection.
const ControlFD = 3

func (s spawner) Worker(control *os.File) (device.Process, error) {
	return s.spawn(starter.Worker, control)
}

func (s spawner) Mover(control *os.File) (device.Process, error) {
	return s.spawn(starter.Mover, control)
}

func (s spawner) Usage(control *os.File) (device.Process, error) {
	return s.spawn(starter.Usage, control)
}

func (s spawner) spawn(r starter.Role, control *os.File) (device.Process, error) {
	c := s.command(r, control)
	if err := s.how.runs(r)(c); err != nil {
		return nil, fmt.Errorf("start a %s: %w", r, fix.Start(err))
	}
	s.rank(r, c)
	return child{c}, nil
}

// start starts a role for a device process that can't.
func (s spawner) start(r starter.Role, control *os.File) (starter.Child, error) {
	c := s.command(r, control)
	child, err := starter.Execute(c, s.how.runs(r))
	if err == nil {
		s.rank(r, c)
	}
	return child, fix.Start(err)
}

// command is what a role executes. All lay out their address spaces alike, though only workers need
// it.
func (s spawner) command(r starter.Role, control *os.File) *exec.Cmd {
	c := exec.Command(process.Self(), r.String())
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if r != starter.Usage && s.how.alone {
		c.Path = ownroot.ProgramPath
	} else {
		c.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	c.Env = childEnvironment(s.how.environment, r, s.how.gpu)
	if r == starter.Usage {
		c.Stdin, c.Stdout = control, control
		return c
	}
	c.Args = append(c.Args, "--sandbox", s.how.sandbox.String())
	c.Args = append(c.Args, s.logs.Args()...)
	c.Args = append(c.Args, "--log-vm", s.logs.VM)
	if s.how.watched {
		c.Args = append(c.Args, "--watched")
	}
	c.ExtraFiles, c.Stderr = []*os.File{control}, s.stderr
	return c
}

// rank tells the kernel how soon to kill a child.
func (s spawner) rank(r starter.Role, c *exec.Cmd) {
	if err := goFirst(c.Process.Pid, r.String()); err != nil {
		unranked.Do(func() {
			s.log.WithError(err).Warnf("a %s may outlive other processes when the host has no "+
				"memory left", r)
		})
	}
}

// child is a process that spawner started.
type child struct{ c *exec.Cmd }

func (c child) Kill()       { _ = c.c.Process.Kill() }
func (c child) Wait() error { return starter.Await(c.c) }

// PID is the process's, by which the GPU's driver knows it.
func (c child) PID() int { return c.c.Process.Pid }
