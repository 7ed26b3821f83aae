// SPDX-License-Identifier: Apache-2.0

package children

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/hostuse"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/gpubackend/socket"
	softusage "github.com/paracuda/paracuda/gpubackend/soft/usage"
	"github.com/paracuda/paracuda/gpubackend/starter"
	"github.com/paracuda/paracuda/internal/fix"
)

// distant starts the processes of a VM through a starter process.
type distant struct {
	client  *starter.Client
	remains *remains.Remains // the next device process gets the connection
	files   *childFiles
	ending  chan struct{}
	lost    chan struct{} // closed when the starter process has ended before its time
}

// LastSignal is how long after its starter process a device process may be told to end, when a
// service manager ends all processes of a VM.
const LastSignal = 200 * time.Millisecond

func newDistant(c *starter.Client, r *remains.Remains, files *childFiles) *distant {
	return &distant{client: c, remains: r, files: files, ending: make(chan struct{}),
		lost: make(chan struct{})}
}

// startStarter starts the starter process.
func startStarter(h *Config, files *childFiles) (*distant, error) {
	config := starterConfig{GPU: h.GPU, VM: h.Logs.VM, Level: h.Logs.Level,
		Format: h.Logs.Format, Arbiters: h.Arbiters, Made: h.Made}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	conn, theirs, err := socket.Connect(socket.Packets)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	command := func(attr *syscall.SysProcAttr) *exec.Cmd {
		c := exec.Command(process.Self(), "starter", string(text))
		c.ExtraFiles, c.Stderr, c.Env = []*os.File{theirs}, h.Stderr,
			process.WithProcessors(h.Environment, process.WaitingProcessors)
		if attr.Setpgid = true; h.Remains == nil { // otherwise it ends with the connection
			attr.Pdeathsig = syscall.SIGKILL
		}
		c.SysProcAttr = attr
		return c
	}
	var c *exec.Cmd
	if config.GPU == hostgpus.Soft && !sandbox.MayBeApart() {
		c = startInUserNamespace(command, h.Log)
	}
	if c == nil {
		c = command(&syscall.SysProcAttr{})
		err = startForGood(c)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the process that starts others: %w", err)
	}
	h.Remains.KeepFile(remains.Starter, conn)
	d := newDistant(starter.NewClient(conn), h.Remains, files)
	_ = c.Process.Release() // waiting for it is a system call that this process gives up
	go d.watch(h.Log)
	return d, nil
}

// startInUserNamespace starts a process in a user namespace of its own; nil: there is none, and the
// log says why.
func startInUserNamespace(
	command func(*syscall.SysProcAttr) *exec.Cmd, log *logrus.Entry,
) *exec.Cmd {
	attr := &syscall.SysProcAttr{}
	err := sandbox.InUserNamespace(attr)
	c := command(attr)
	if err == nil {
		err = startForGood(c)
	}
	if err != nil {
		log.WithError(err).Info("workers and mover have no user namespace of their own: for one, " +
			fix.UserNamespaces("/"))
		return nil
	}
	return c
}

// resumeStarter takes over the previous device process's starter process and what that has started;
// nil: there is none. If it is gone, what it has started ends soon, too.
func resumeStarter(
	r *remains.Remains, files *childFiles, log *logrus.Entry,
) (*distant, []device.Process, error) {
	fd, is := r.Take(remains.Starter)
	if !is {
		return nil, nil, nil
	}
	conn, err := socket.Conn(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("take over the starter process: %w", err)
	}
	client, children, err := starter.Resume(conn)
	if errors.Is(err, starter.ErrGone) {
		log.Warn("the process that starts workers had ended, and the workers with it: " +
			"another one is started")
		return nil, files.orphans(), nil
	}
	if err != nil {
		return nil, nil, err
	}
	d := newDistant(client, r, files)
	go d.watch(log)
	return d, files.resume(children), nil
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
		text := "the process that starts workers has ended, and workers end with it: "
		if d.remains == nil {
			text += "no program gets the GPU any more"
		} else {
			text += "programs that start from now on get the GPU again"
		}
		loglimit.Keep(log).Error(text)
		close(d.lost)
	}
}

// end removes sockets that were made, and ends the starter process, and with it the children: no
// other device process comes, so that the keeper needn't have the connection any more, either.
func (d *distant) end(made []string) {
	close(d.ending)
	for _, path := range made {
		_ = d.client.Remove(path)
	}
	d.remains.Drop(remains.Starter)
	d.client.Close()
}

func (d *distant) start(r starter.Role, control *os.File) (device.Process, error) {
	p, err := d.client.Start(r, control)
	if errors.Is(err, starter.ErrGone) && d.remains != nil {
		time.Sleep(2 * LastSignal) // the next device process will do it, when this one has ended
	}
	if err != nil {
		return nil, fix.Start(err)
	}
	return d.files.keep(p), nil
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

// softMemory says how much memory of the software GPUs, so many, the children have.
func (d *distant) softMemory(gpus int) (ledger.Usage, error) {
	bytes, err := d.client.Count()
	if err != nil {
		return nil, err
	}
	return softusage.Known(gpus, bytes), nil
}

// weigh says how much of the host's memory the children have.
func (d *distant) weigh([]int) (map[int]hostuse.Bytes, error) { return d.client.Weigh() }

// weighed says so of processes that this one may look into. Those that have ended are left out.
func weighed(pids []int) (map[int]hostuse.Bytes, error) {
	all := map[int]hostuse.Bytes{}
	for _, pid := range pids {
		b, err := hostuse.Of(pid)
		if errors.Is(err, os.ErrPermission) {
			return nil, err
		}
		if err == nil {
			all[pid] = b
		}
	}
	return all, nil
}
