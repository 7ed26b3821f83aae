// SPDX-License-Identifier: Apache-2.0

package children

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
	"github.com/paracuda/paracuda/gpubackend/cuda/output"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/gpubackend/soft"
	"github.com/paracuda/paracuda/gpubackend/worker"
)

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
			if o.sandbox && gpu == hostgpus.CUDA {
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
	case hostgpus.Soft:
		o := soft.Options{
			GPUs: p.SoftGPUs, Apart: p.SoftApart, Memory: p.SoftMemory, HostMemory: host,
			Accounts: accounts,
		}
		d := soft.New(o)
		d.Lose(p.SoftLost - 1)
		return d, nil
	case hostgpus.CUDA:
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
