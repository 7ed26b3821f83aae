// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/output"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/gpubackend/soft"
	"github.com/paracuda/paracuda/gpubackend/worker"
)

// childOptions are the flags of worker and mover.
type childOptions struct {
	logs    logs.Flags
	sandbox sandboxFlag
	watched bool
}

// childCommand makes worker or mover, which paracuda device starts.
func childCommand(role string, run func(o *childOptions) error) *cobra.Command {
	o := childOptions{sandbox: true}
	c := &cobra.Command{
		Use:    role,
		Long:   "Started by paracuda device.",
		Hidden: true,
		Args:   cli.TakesNothing,
		RunE: func(*cobra.Command, []string) error {
			if err := startChild(role); err != nil {
				return err
			}
			return run(&o)
		},
	}
	o.logs.Add(c, "info")
	o.logs.AddVM(c)
	sandboxOption(c, &o.sandbox)
	c.Flags().BoolVar(&o.watched, "watched", false, "stay dumpable in the sandbox")
	return c
}

// startChild sets up what worker and mover have in common.
func startChild(role string) error {
	if _, err := unix.GetsockoptInt(controlFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return fmt.Errorf("%s: no control connection: paracuda device starts %[1]ss by itself",
			role)
	}
	outliveTerminal()
	return leaveNoCore()
}

// begin opens a child's log, which the caller ends, and its connection to the device process.
func (o *childOptions) begin(
	to io.Writer, role string,
) (log *logrus.Entry, endLog func(), control *handover.Conn, err error) {
	log, endLog, err = logs.New(to, &o.logs, role)
	if err != nil {
		return nil, nil, nil, err
	}
	log.WithField("version", version).Debug("starts")
	control, err = handover.NewConn(os.NewFile(controlFD, "control"))
	if err != nil {
		endLog()
		return nil, nil, nil, err
	}
	return log, endLog, control, nil
}

func workerCommand() *cobra.Command { return childCommand("worker", runWorker) }

func runWorker(o *childOptions) error {
	// The queue's goroutine and CUDA's current context stay on one thread.
	runtime.LockOSThread()
	capture, err := output.NewCapture()
	if err != nil {
		return err
	}
	// Standard error is for the guest's kernels: a crash of the worker is reported in the log.
	if err := debug.SetCrashOutput(capture.Log(), debug.CrashOptions{}); err != nil {
		return err
	}
	log, endLog, control, err := o.begin(capture.Log(), "worker")
	if err != nil {
		return err
	}
	defer endLog()
	defer runtime.KeepAlive(control) // to close it would end this process
	err = worker.Run(worker.Config{
		Control: control,
		NewDriver: func(
			gpu string, p handover.Policy, host *budget.Budget, accounts *ledger.Process,
		) (gpubackend.Driver, error) {
			if o.sandbox && gpu == gpuCUDA {
				driver.LoadCompilers() // now, since the sandbox lets no memory be made executable
			}
			return newDriver(gpu, p, host, accounts, capture, log)
		},
		NewMover: connectMover,
		Confine: o.confineAsking(confined{
			soft: sandbox.SoftWorker, cuda: sandbox.CUDAWorker, files: workerFiles,
		}, control),
		Log: log,
	})
	if err != nil {
		loglimit.Keep(log).WithError(err).Info("worker ends")
		return cli.ExitCode(1)
	}
	return nil
}

func newDriver(
	gpu string, p handover.Policy, host *budget.Budget, accounts *ledger.Process,
	capture *output.Redirect, log *logrus.Entry,
) (gpubackend.Driver, error) {
	switch gpu {
	case gpuSoft:
		o := soft.Options{
			GPUs: p.SoftGPUs, Apart: p.SoftApart, Memory: p.SoftMemory, HostMemory: host,
			Accounts: accounts,
		}
		d := soft.New(o)
		d.Lose(p.SoftLost - 1)
		return d, nil
	case gpuCUDA:
		o := cudaOptions(p, capture, log)
		o.HostMemory, o.Accounts = host, accounts
		return cuda.New(o)
	}
	return nil, fmt.Errorf("unknown GPU %q", gpu)
}

// cudaOptions makes the driver log where the worker does: standard error is for kernels, and the
// guest reads it.
func cudaOptions(p handover.Policy, capture *output.Redirect, log *logrus.Entry) cuda.Options {
	return cuda.Options{
		AllowPageable: p.AllowPageable, GraphReplay: p.GraphReplay, MovableCode: p.MovableCode,
		Capture: capture, Log: log, Known: p.Known(),
	}
}
