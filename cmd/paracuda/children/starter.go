// SPDX-License-Identifier: Apache-2.0

package children

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/gpubackend/socket"
	softusage "github.com/paracuda/paracuda/gpubackend/soft/usage"
	"github.com/paracuda/paracuda/gpubackend/starter"
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
	conn, err := socket.Conn(ControlFD)
	if err != nil {
		return fmt.Errorf("starter: no control connection: %w", err)
	}
	process.OutliveTerminal()
	how := logs.Flags{VM: c.VM, Level: c.Level, Format: c.Format}
	log, endLog, err := logs.New(os.Stderr, &how, "starter")
	if err != nil {
		return err
	}
	defer endLog()
	if err := process.LeaveNoCore(); err != nil {
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
	if c.GPU == hostgpus.Soft {
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
		gpu: c.GPU,
	}}
	var keep []uint
	if c.GPU == hostgpus.Soft {
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
	if err := sandbox.MakeRoom(unix.Stderr); err != nil {
		log.WithError(err).Debug("workers begin without room for numbers of files")
	}
	return s, process.FilterCalls(sandbox.StarterProcess)
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
	if c.GPU != hostgpus.Soft && mpsRuns() {
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
