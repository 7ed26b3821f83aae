// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/hostuse"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	softusage "github.com/paracuda/paracuda/gpubackend/soft/usage"
	"github.com/paracuda/paracuda/gpubackend/starter"
	"github.com/paracuda/paracuda/internal/fix"
)

// sandboxFlag says whether the processes of a VM are kept in a sandbox.
type sandboxFlag bool

func (s *sandboxFlag) Set(value string) error {
	switch value {
	case "on":
		*s = true
	case "off":
		*s = false
	default:
		return fmt.Errorf("want on or off, not %q", value)
	}
	return nil
}

func (s *sandboxFlag) String() string {
	if *s {
		return "on"
	}
	return "off"
}

// Type is what help says of its value.
func (s *sandboxFlag) Type() string { return "on|off" }

// sandboxOption adds --sandbox to a command.
func sandboxOption(c *cobra.Command, s *sandboxFlag) {
	c.Flags().Var(s, "sandbox", sandboxHelp)
	cli.Complete(c, "sandbox", cli.Words("on", "off"))
}

const (
	sandboxHelp = "`on|off`: whether the VM's processes keep only the rights and files that they " +
		"need"
	passEnvHelp = "give the VM's processes the environment variable `NAME` (may be repeated)"
)

// start is how children are started, and with which environment.
type start struct {
	sandbox     sandboxFlag
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

// household starts the VM's processes, and does what else the device process can't do itself.
type household struct {
	children
	memory  memoryAsker
	weigh   func(pids []int) (map[int]hostuse.Bytes, error)
	connect func(path string) (*net.UnixConn, error) // to an arbiter; nil: this process may
	opener  ram.Opener                               // of the guest's memory; nil: nobody can
	make    func(pid int, f memfd.Form) (*os.File, error)
	end     func(made []string) // ends all, and removes these sockets
	left    []device.Process    // by the previous device process
	lost    <-chan struct{}     // closed when nothing can be started any more
}

// household makes one whose processes write to stderr.
func (o *deviceOptions) household(
	gpu string, stderr *os.File, log *logrus.Entry, r *remains.Remains,
) (*household, error) {
	gpus := max(1, o.settings.Policy.SoftGPUs)
	if !o.sandbox {
		log.Warn("--sandbox=off: a program that takes a worker or the device process over has " +
			"this process's rights")
		c := spawner{logs: o.logs, log: log, stderr: stderr, how: start{run: startApart, gpu: gpu}}
		ask := func(pids []int) (ledger.Usage, error) { return softusage.Ask(gpus, pids) }
		return &household{c, usageOf(gpu, c, ask, log), weighed, nil, nil, nil,
			func([]string) {}, nil, nil}, nil
	}
	environment := sandbox.Environment(os.Environ(), o.passEnv)
	config := starterConfig{GPU: gpu, VM: o.logs.VM, Level: o.logs.Level,
		Format: o.logs.Format}
	if o.arbiter != noArbiter {
		config.Arbiters = client.Paths(o.arbiter)
	}
	config.Made = o.made(true, true)
	files := &childFiles{remains: r}
	d, left, err := resumeStarter(r, files, log)
	if err == nil && d == nil {
		d, err = startStarter(config, stderr, environment, log, r, files)
	}
	if err != nil {
		return nil, err
	}
	ask := func([]int) (ledger.Usage, error) { return d.softMemory(gpus) }
	return &household{d, usageOf(gpu, d, ask, log), d.weigh, d.client.Connect, d.client,
		d.client.Make, d.end, left, d.lost}, nil
}

// made lists the sockets that this process makes: for front ends, and for control.
func (o *deviceOptions) made(door, control bool) (paths []string) {
	if door && o.fd < 0 && o.socket != "" {
		paths = append(paths, o.socket)
	}
	if control && o.control != "" {
		paths = append(paths, o.control)
	}
	for i := range paths {
		if path, err := filepath.Abs(paths[i]); err == nil {
			paths[i] = path
		}
	}
	return paths
}

// confineSelf takes from the device process what it doesn't need, once it has opened all files.
func (o *deviceOptions) confineSelf(log *logrus.Entry) error {
	if !o.sandbox {
		return nil
	}
	if err := leaveNoCore(); err != nil {
		return err
	}
	if err := sandbox.NotDumpable(); err != nil {
		return err
	}
	missing, err := sandbox.KeepOnly()
	if missing != nil && err == nil {
		log.WithError(missing).Debug("the device process may have the rights of what it executes")
	}
	if err != nil {
		return err
	}
	if _, err := sandbox.Landlock(); err != nil {
		log.WithError(err).Info("this process, workers and mover keep the right to open files: " +
			fix.Landlock("/", err))
	}
	return filter(sandbox.Device, sandbox.Files{})
}

// filter takes all files but these from this process, and makes the kernel end it when it makes a
// system call that its role doesn't need.
func filter(role sandbox.Role, files sandbox.Files) error {
	if err := onlyFiles(files); err != nil {
		return err
	}
	return filterCalls(role)
}

// filterAsking does so for a worker with that control connection, and returns what decides on its
// mappings of the guest's memory; -1: nothing does, since missing.
func filterAsking(
	role sandbox.Role, files sandbox.Files, control int,
) (listener int, missing, err error) {
	if err := onlyFiles(files); err != nil {
		return -1, nil, err
	}
	if listener, missing, err = sandbox.FilterAsking(role, control); err != nil {
		return -1, nil, noFilter(err)
	}
	return listener, missing, nil
}

// onlyFiles takes all files but these from this process.
func onlyFiles(files sandbox.Files) error {
	// For the log: this reads the time zone's file while files can still be opened.
	_, _ = time.Now().Zone()
	return sandbox.OnlyFiles(files)
}

// noFilter names the fix.
func noFilter(err error) error { return fmt.Errorf("%w: %s", err, fix.Seccomp("/")) }

// filterCalls makes the kernel end this process when it makes a system call that its role doesn't
// need.
func filterCalls(role sandbox.Role) error {
	if err := sandbox.Filter(role); err != nil {
		return noFilter(err)
	}
	return nil
}

// confined is what a child may do when it is ready, by the GPU that it uses.
type confined struct {
	soft, cuda sandbox.Role
	files      func() sandbox.Files // on CUDA; on the software GPU it opens none
}

// errUnfiltered says why nobody can decide on what a worker maps.
var errUnfiltered = errors.New("it has no filter of system calls")

// role is what a child on that GPU is confined to, and its files; false: it has no filter.
func (o *childOptions) role(to *confined, gpu string) (sandbox.Role, sandbox.Files, bool, error) {
	if !o.sandbox {
		return 0, sandbox.Files{}, false, nil
	}
	if !o.watched {
		if err := sandbox.NotDumpable(); err != nil {
			return 0, sandbox.Files{}, false, err
		}
	}
	switch {
	case gpu == gpuSoft:
		return to.soft, sandbox.Files{}, true, nil
	case isListed():
		return to.cuda, to.files(), true, nil
	}
	return 0, sandbox.Files{}, false, nil
}

// confine returns what a child calls when it is ready, before it serves a guest.
func (o *childOptions) confine(to confined) func(gpu string) error {
	return func(gpu string) error {
		role, files, is, err := o.role(&to, gpu)
		if err != nil || !is {
			return err
		}
		return filter(role, files)
	}
}

// confineAsking returns the same for a worker, which then asks for what it maps (filterAsking). The
// connection must stay open: to close it ends the process.
func (o *childOptions) confineAsking(
	to confined, control *handover.Conn,
) func(gpu string) (listener int, missing, err error) {
	return func(gpu string) (listener int, missing, err error) {
		role, files, is, err := o.role(&to, gpu)
		if err != nil || !is {
			return -1, errUnfiltered, err
		}
		number := -1
		control.WithFD(func(fd int) { number = fd })
		return filterAsking(role, files, number)
	}
}
