// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/gpubackend/socket"
	softusage "github.com/paracuda/paracuda/gpubackend/soft/usage"
	"github.com/paracuda/paracuda/gpubackend/starter"
	"github.com/paracuda/paracuda/internal/fix"
)

// starterConfig is what the device process tells the starter process, as its argument.
type starterConfig struct {
	GPU, VM, Level, Format string
	Arbiters, Made         []string // paths of sockets: to connect to, and to remove
}

func starterCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "starter CONFIG",
		Long:   "Started by paracuda device.",
		Hidden: true,
		Args:   cobra.ArbitraryArgs,
		RunE:   func(_ *cobra.Command, args []string) error { return runStarter(args) },
	}
}

// runStarter starts workers and mover for a device process that mustn't.
func runStarter(args []string) error {
	var c starterConfig
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &c) != nil {
		return errors.New("starter: started by paracuda device")
	}
	conn, err := socket.Conn(controlFD)
	if err != nil {
		return fmt.Errorf("starter: no control connection: %w", err)
	}
	outliveTerminal()
	how := logs.Flags{VM: c.VM, Level: c.Level, Format: c.Format}
	log, endLog, err := logs.New(os.Stderr, &how, "starter")
	if err != nil {
		return err
	}
	defer endLog()
	if err := leaveNoCore(); err != nil {
		return err
	}
	s, err := c.prepare(log)
	if err != nil {
		return err
	}
	s.logs = how
	config := starter.Config{
		Start: s.start, Sockets: c.Arbiters, Network: link.Network, Made: c.Made,
	}
	if c.GPU == gpuSoft {
		config.Count = softusage.Of
	}
	return starter.Serve(conn, config)
}

// prepare takes from this process and from its children what they don't need, and logs what it
// can't take.
func (c *starterConfig) prepare(log *logrus.Entry) (spawner, error) {
	thread, own, kept, err := c.newStarter(log)
	if err != nil {
		return spawner{}, err
	}
	// The process that asks for the GPU's use must see the host's processes: the driver knows them
	// by their numbers.
	onHost, _, err := sandbox.NewStarter(lowLayout(log))
	if err != nil {
		return spawner{}, err
	}
	if kept != nil {
		log.WithError(kept).Warn("workers and mover keep some of this process's privileges")
	}
	s := spawner{log: log, stderr: os.Stderr, how: start{
		sandbox: true, run: thread.Start, runOnHost: onHost.Start, alone: own,
	}}
	var keep []uint
	if c.GPU == gpuSoft {
		if s.how.watched = !sandbox.MayLook(); s.how.watched {
			log.Info("other processes of this user can look into workers and mover: " +
				"without CAP_SYS_PTRACE their memory can't be counted otherwise")
		}
		keep = append(keep, unix.CAP_SYS_PTRACE)
	}
	if _, err := sandbox.KeepOnly(keep...); err != nil {
		return s, err
	}
	if err := sandbox.NotDumpable(); err != nil {
		return s, err
	}
	return s, filterCalls(sandbox.StarterProcess)
}

// newStarter makes what starts workers and mover, in namespaces of their own as far as it may.
// Own says whether they have a PID namespace, and so can't be bound to this process's end.
func (c *starterConfig) newStarter(log *logrus.Entry) (
	s *sandbox.Starter, own bool, kept, err error,
) {
	apart, layout := c.apart(), lowLayout(log)
	if apart == nil {
		s, kept, err = sandbox.NewStarter(func() error {
			return errors.Join(sandbox.Apart(), alone(c.GPU), layout())
		})
		if err == nil {
			return s, true, kept, nil
		}
		log.WithError(err).Info("workers and mover see the host's files and processes")
	}
	s, kept, err = sandbox.NewStarter(func() error {
		if apart == nil {
			apart = sandbox.Apart()
		}
		return layout()
	})
	if apart != nil {
		log.WithError(apart).Info("workers and mover have the host's files, network and " +
			"abstract sockets, and see its processes")
	}
	return s, false, kept, err
}

// errMPS says why there are no namespaces.
var errMPS = errors.New("NVIDIA's MPS runs, whose clients share its IPC namespace")

// apart says why the children can't have namespaces of their own: that would keep them from the
// GPU.
func (c *starterConfig) apart() error {
	if c.GPU != gpuSoft && mpsRuns() {
		return errMPS
	}
	return nil
}

// mpsRuns says whether there are the pipes of NVIDIA's Multi-Process Service.
func mpsRuns() bool {
	dir := os.Getenv("CUDA_MPS_PIPE_DIRECTORY")
	if dir == "" {
		dir = "/tmp/nvidia-mps"
	}
	_, err := os.Stat(dir)
	return err == nil
}

// distant starts the processes of a VM through a starter process.
type distant struct {
	client *starter.Client
	ending chan struct{}
}

// startStarter starts the starter process. Its children write to stderr, and get an environment.
func startStarter(
	config starterConfig, stderr *os.File, environment []string, log *logrus.Entry,
	r *remains.Remains,
) (*distant, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "control")
	defer theirs.Close()
	conn, err := socket.Conn(fds[0])
	if err != nil {
		return nil, err
	}
	command := func(attr *syscall.SysProcAttr) *exec.Cmd {
		c := exec.Command(self(), "starter", string(text))
		c.ExtraFiles, c.Stderr, c.Env = []*os.File{theirs}, stderr, environment
		if attr.Setpgid = true; r == nil { // otherwise it ends with the connection
			attr.Pdeathsig = syscall.SIGKILL
		}
		c.SysProcAttr = attr
		return c
	}
	c := command(&syscall.SysProcAttr{})
	if config.GPU == gpuSoft && !sandbox.MayBeApart() {
		attr := &syscall.SysProcAttr{}
		sandbox.InUserNamespace(attr)
		c = command(attr)
	}
	err = startForGood(c)
	if err != nil && c.SysProcAttr.Cloneflags != 0 {
		log.WithError(err).Info("workers and mover have no user namespace of their own: for one, " +
			fix.UserNamespaces("/"))
		c = command(&syscall.SysProcAttr{})
		err = startForGood(c)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the process that starts others: %w", err)
	}
	keepFile(r, remains.Starter, conn)
	d := &distant{client: starter.NewClient(conn), ending: make(chan struct{})}
	_ = c.Process.Release() // waiting for it is a system call that this process gives up
	go d.watch(log)
	return d, nil
}

// resumeStarter takes over the previous device process's starter process, and what that has
// started; nil: there is none.
func resumeStarter(r *remains.Remains, log *logrus.Entry) (*distant, []device.Process, error) {
	fd, is := r.Take(remains.Starter)
	if !is {
		return nil, nil, nil
	}
	conn, err := socket.Conn(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("take over the starter process: %w", err)
	}
	client, children, err := starter.Resume(conn)
	if err != nil {
		return nil, nil, err
	}
	d, left := &distant{client: client, ending: make(chan struct{})}, []device.Process{}
	for _, c := range children {
		left = append(left, c)
	}
	go d.watch(log)
	return d, left, nil
}

// startForGood starts a child whose end is tied to that of this process: to a thread that lives as
// long.
func startForGood(c *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			select {}
		}
		runtime.UnlockOSThread()
	}()
	return <-started
}

// watch says when the starter process has ended before its time.
func (d *distant) watch(log *logrus.Entry) {
	<-d.client.Gone()
	select {
	case <-d.ending:
	default:
		loglimit.Keep(log).Error("the process that starts workers has ended: no program gets the " +
			"GPU any more")
	}
}

// end removes sockets that were made, and ends the starter process, and with it the children.
func (d *distant) end(made []string) {
	close(d.ending)
	for _, path := range made {
		_ = d.client.Remove(path)
	}
	d.client.Close()
}

func (d *distant) start(r starter.Role, control *os.File) (device.Process, error) {
	p, err := d.client.Start(r, control)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (d *distant) Worker(control *os.File) (device.Process, error) {
	return d.start(starter.Worker, control)
}

func (d *distant) Mover(control *os.File) (device.Process, error) {
	return d.start(starter.Mover, control)
}

func (d *distant) Usage(control *os.File) (device.Process, error) {
	return d.start(starter.Usage, control)
}

// softMemory says what the children have of the memory of so many software GPUs.
func (d *distant) softMemory(gpus int) (ledger.Usage, error) {
	bytes, err := d.client.Count()
	if err != nil {
		return nil, err
	}
	return softusage.Known(gpus, bytes), nil
}
