// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda"
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
	logs    logFlags
	sandbox sandboxFlag
}

// startChild reads the flags of worker and mover, and sets what holds for both.
func startChild(role string, args []string) (o childOptions, err error) {
	o.sandbox = true
	f := newFlags(role, "", "Started by paracuda device.")
	o.logs.add(f, "info")
	f.Var(&o.sandbox, "sandbox", sandboxHelp)
	if err := parse(f, args); err != nil {
		return o, err
	}
	if _, err := unix.GetsockoptInt(controlFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return o, fmt.Errorf("%s: no control connection: paracuda device starts %[1]ss by itself",
			role)
	}
	outliveTerminal()
	return o, leaveNoCore()
}

func runWorker(args []string) error {
	o, err := startChild("worker", args)
	if err != nil {
		return err
	}
	// The queue's goroutine and CUDA's current context stay on one thread.
	runtime.LockOSThread()
	capture, err := output.NewCapture()
	if err != nil {
		return err
	}
	// Standard error is a kernel's: a crash of the worker's own is reported where the log goes.
	if err := debug.SetCrashOutput(capture.Log(), debug.CrashOptions{}); err != nil {
		return err
	}
	log, endLog, err := newLog(capture.Log(), &o.logs, "worker")
	if err != nil {
		return err
	}
	defer endLog()
	control, err := handover.NewConn(os.NewFile(controlFD, "control"))
	if err != nil {
		return err
	}
	err = worker.Run(worker.Config{
		Control: control,
		NewDriver: func(
			gpu string, p handover.Policy, host *budget.Budget, accounts *ledger.Process,
		) (gpubackend.Driver, error) {
			return newDriver(gpu, p, host, accounts, capture, log)
		},
		NewMover: connectMover,
		Confine:  o.confine(sandbox.SoftWorker),
		Log:      log,
	})
	if err != nil {
		loglimit.Keep(log).WithError(err).Info("worker ends")
		return exitCode(1)
	}
	return nil
}

func newDriver(
	gpu string, p handover.Policy, host *budget.Budget, accounts *ledger.Process,
	capture *output.Capture, log *logrus.Entry,
) (gpubackend.Driver, error) {
	switch gpu {
	case gpuSoft:
		o := soft.Options{Memory: p.SoftMemory, HostMemory: host, Accounts: accounts}
		return soft.New(o), nil
	case gpuCUDA:
		o := cudaOptions(p, capture, log)
		o.HostMemory, o.Accounts = host, accounts
		return cuda.New(o)
	}
	return nil, fmt.Errorf("unknown GPU %q", gpu)
}

// cudaOptions has the driver log where the worker does: standard error is its kernels', which the
// guest reads.
func cudaOptions(p handover.Policy, capture *output.Capture, log *logrus.Entry) cuda.Options {
	return cuda.Options{
		AllowPageable: p.AllowPageable, GraphReplay: p.GraphReplay, Capture: capture, Log: log,
	}
}
