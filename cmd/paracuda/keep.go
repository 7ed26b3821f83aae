// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/cmd/paracuda/children"
	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/keeper"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/internal/fix"
	"github.com/paracuda/paracuda/vhostuser"
)

// keeperThreads is more than a keeper uses at a time.
const keeperThreads = 12

// keep is the process that keeps the VM's device alive: it starts the device process, which serves
// the VM, and another one in its place when that dies, or on SIGUSR2. It reads nothing of the VM.
func (o *deviceOptions) keep() error {
	var err error
	if o.logs.VM, err = o.vmName(); err != nil {
		return cli.Usagef("device: %w", err)
	}
	log, endLog, err := logs.New(os.Stderr, &o.logs, "keeper")
	if err != nil {
		return err
	}
	defer endLog()
	if err := sandbox.CloseInherited(firstInherited); err != nil {
		return err
	}
	if err := confineKeeper(); err != nil {
		return err
	}
	process.OutliveTerminal()
	process.SpareThreads(keeperThreads)
	sockets, args, err := o.inherited()
	if err != nil {
		return err
	}
	if err := process.FilterCalls(sandbox.Keeper); err != nil {
		return err
	}
	c := &deviceChild{args: args, sockets: sockets, log: log,
		versions: versions{path: pathOf()},
		environment: process.WithProcessors(sandbox.Environment(os.Environ(),
			slices.Concat(ofDevices, o.passEnv)), process.MostProcessors)}
	defer c.closeSockets()
	defer c.versions.close()
	k := keeper.New(keeper.Config{Start: c.start, Log: log, Ready: c.ready,
		Replacing: c.versions.renew})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR2)
	go func() {
		for s := range signals {
			if s == syscall.SIGUSR2 {
				k.Replace()
				continue
			}
			k.Last()
			c.end()
		}
	}()
	err = c.run(k)
	if c.wasEnded(err) {
		return nil
	}
	return told(err)
}

// capabilities are those that device processes need to start if root starts them. They give
// them up by themselves. They are for the VM's namespaces, to look into workers, to open and make
// files and sockets in other users' folders, to give these to a group, and to give up the rest.
var capabilities = []uint{unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_DAC_OVERRIDE,
	unix.CAP_CHOWN, unix.CAP_SETPCAP}

// confineKeeper takes from the keeper what device processes don't need. It doesn't give up files,
// as its children need them.
func confineKeeper() error {
	if err := process.LeaveNoCore(); err != nil {
		return err
	}
	if err := sandbox.NotDumpable(); err != nil {
		return err
	}
	_, err := sandbox.PassOn(capabilities...) // other users than root have nothing to give up
	return err
}

// wasEnded says whether a signal ended the device process while this process ends: SIGTERM before
// it could handle that, or SIGKILL as it was being replaced.
func (c *deviceChild) wasEnded(how error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var exit *exec.ExitError
	if !c.ending || !errors.As(how, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && (status.Signal() == syscall.SIGTERM || status.Signal() == syscall.SIGKILL)
}

// told is this process's error if the device process ended with err and has said why.
func told(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) || errors.Is(err, keeper.ErrCrashes) {
		return err
	}
	if code := exit.ExitCode(); code > 0 {
		return cli.ExitCode(code)
	}
	return fmt.Errorf("the device process: %w", err)
}

// deviceChild stands for the VM's device process, each one in turn.
type deviceChild struct {
	args        []string
	environment []string
	sockets     []*os.File // that the first one inherits
	log         *logrus.Entry
	told        bool // systemd knows that the device is ready
	versions    versions

	mu     sync.Mutex
	ending bool // guarded by mu, as is what follows
	now    *exec.Cmd
}

// ready is told that a device process serves.
func (c *deviceChild) ready() {
	c.versions.serves()
	if c.told {
		return
	}
	c.told = true
	if err := sayReady(); err != nil {
		c.log.WithError(err).Warn("systemd isn't told that the device is ready")
	}
}

// run starts one device process after the other from one thread, as the kernel ends a device
// process with the thread that started it.
func (c *deviceChild) run(k *keeper.Keeper) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return k.Run(context.Background())
}

// start implements keeper.Config.
func (c *deviceChild) start(control *os.File) (keeper.Child, error) {
	cmd := exec.Command(c.versions.next(c.log), append([]string{"device"}, c.args...)...)
	cmd.Args[0] = c.versions.path
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, c.environment
	cmd.ExtraFiles = append([]*os.File{control}, c.sockets...)
	// A terminal's signal goes to this process alone, which passes it on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fix.Start(err)
	}
	c.closeSockets()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now = cmd; c.ending {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	return keptProcess{cmd}, nil
}

// end asks the device process to end.
func (c *deviceChild) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending = true; c.now != nil {
		_ = c.now.Process.Signal(syscall.SIGTERM)
	}
}

func (c *deviceChild) closeSockets() {
	for _, f := range c.sockets {
		f.Close()
	}
	c.sockets = nil
}

// keptProcess is a device process, as its keeper sees it.
type keptProcess struct{ c *exec.Cmd }

func (p keptProcess) Kill()       { _ = p.c.Process.Kill() }
func (p keptProcess) Wait() error { return p.c.Wait() }

// inherited are the sockets that this process was started with, and the arguments that tell the
// device process of them. It has them as descriptors 4 and 5.
func (o *deviceOptions) inherited() (files []*os.File, args []string, err error) {
	args = append(args, os.Args[2:]...)
	// Without a name of its own it keeps that of the first process.
	args = append(args, "--keeper", "off", "--kept", strconv.Itoa(children.ControlFD),
		"--name", o.logs.VM)
	next := children.ControlFD + 1
	if o.fd >= 0 {
		files = append(files, os.NewFile(uintptr(o.fd), "socket"))
		args = append(args, "--fd", strconv.Itoa(next))
		next++
	}
	if o.controlSocket != nil {
		f, err := o.controlSocket.File()
		if err != nil {
			return nil, nil, fmt.Errorf("device: the control socket: %w", err)
		}
		_ = o.controlSocket.Close()
		files = append(files, f)
		args = append(args, "--kept-control", strconv.Itoa(next))
	}
	return files, args, nil
}

// takeKept takes over the control socket that the keeper passes on.
func (o *deviceOptions) takeKept() (err error) {
	if o.keptControl < 0 {
		return nil
	}
	o.controlSocket, err = listenerOf(o.keptControl)
	return err
}

// listenerOf makes a listener of a descriptor, which it owns.
func listenerOf(fd int) (*net.UnixListener, error) {
	l, conn, err := vhostuser.Inherit(fd)
	if conn != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("socket %d doesn't listen", fd)
	}
	return l, err
}
