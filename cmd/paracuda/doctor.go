// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/compute"
	"github.com/paracuda/paracuda/cmd/paracuda/doctor"
	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/soft"
)

const doctorText = `Looks at this host for what keeps its VMs from a GPU: QEMU and its devices,
KVM, NVIDIA's driver and its device nodes, the kernel's limits, what the sandbox needs, the
arbiter, the files and sockets of VMs. At the end the GPU computes. It changes nothing, and says for
each what it found and which command fixes it. It exits with 1 if it found a problem; warnings
alone don't count. In a VM, paracuda-doctor does the same.`

// computeTime is how long the computation may take; a driver's start takes some seconds.
const computeTime = time.Minute

func doctorCommand() *cobra.Command {
	var asJSON bool
	s := doctor.Subject{Version: version, VM: checkConfig}
	gpu := gpuAuto
	c := &cobra.Command{
		Use:   "doctor [--json] [options]",
		Short: "look for what keeps this host's VMs from a GPU",
		Long:  doctorText,
		Args:  cli.TakesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE: func(*cobra.Command, []string) error {
			if err := cli.CheckSocket("--arbiter", s.Arbiter); err != nil {
				return err
			}
			s.Compute = func(ctx context.Context) (string, error) { return computeApart(ctx, gpu) }
			return examine(doctor.Checks(doctor.Machine(), &s), asJSON)
		},
	}
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.StringVar(&s.QEMU, "qemu", "qemu-system-x86_64", "look at this `PROGRAM`")
	f.StringVar(&s.Arbiter, "arbiter", "", cli.ArbiterHelp)
	gpuOption(c, &gpu)
	return c
}

// examine carries out checks and prints what they find.
func examine(checks []doctor.Check, asJSON bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	tell := func(f doctor.Finding) { doctor.Print(cli.Stdout, f) }
	if asJSON {
		tell = func(doctor.Finding) {}
	}
	all := doctor.Run(ctx, checks, tell)
	if asJSON {
		if err := doctor.PrintJSON(cli.Stdout, all); err != nil {
			return err
		}
	} else {
		doctor.PrintSum(cli.Stdout, all)
	}
	if doctor.Count(all, doctor.Problem) > 0 {
		return cli.ExitCode(1)
	}
	return nil
}

// checkConfig reads a VM's file as paracuda device does.
func checkConfig(file string) error {
	o := deviceOptions{settings: settings.Default(), given: map[string]bool{}}
	c := &cobra.Command{Use: "device"}
	o.all(c)
	f := config{flags: c.Flags(), settings: &o.settings, given: o.given}
	if err := f.read(file); err != nil {
		return err
	}
	if _, err := hostgpus.Parse(o.gpu); err != nil {
		return cli.Usagef("--config %s: gpu = %w", file, err)
	}
	_, err := o.vmName()
	if err == nil {
		_, err = logs.ParseLevel(o.logs.Level)
	}
	if err == nil {
		err = o.logs.Settle()
	}
	if err != nil {
		return fmt.Errorf("--config %s: %w", file, err)
	}
	return nil
}

// computeApart computes on a GPU in a process of its own: a driver may crash or hang.
func computeApart(ctx context.Context, gpu string) (string, error) {
	want := gpu
	gpu, err := gpuKind(want)
	if err == nil {
		_, err = takeGPUs(want, gpu, settings.Default().Policy.SoftMemory,
			(*hostgpus.Choice).Of)
	}
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, computeTime)
	defer cancel()
	var said bytes.Buffer
	c := exec.CommandContext(ctx, process.Self(), "compute", "--gpu", gpu)
	c.Stderr = &said
	c.WaitDelay = time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.Output()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: no result within %v", gpu, computeTime)
	case err == nil:
		return strings.TrimSpace(string(out)), nil
	}
	why := strings.TrimPrefix(strings.TrimSpace(said.String()), "paracuda: ")
	if why == "" {
		why = err.Error()
	}
	return "", fmt.Errorf("%s: %s", gpu, why)
}

func computeCommand() *cobra.Command {
	gpu := gpuSoft
	c := &cobra.Command{
		Use:    "compute",
		Long:   "Started by paracuda doctor.",
		Hidden: true,
		Args:   cli.TakesNothing,
		RunE:   func(*cobra.Command, []string) error { return computeHere(gpu) },
	}
	gpuOption(c, &gpu)
	return c
}

// computeHere computes in this process, which is good for nothing else afterwards.
func computeHere(gpu string) error {
	runtime.LockOSThread()
	d, err := openGPU(gpu)
	if err != nil {
		return err
	}
	name, err := compute.Run(d)
	if err != nil {
		return err
	}
	fmt.Fprintln(cli.Stdout, name)
	return nil
}

// openGPU opens one as a worker does.
func openGPU(gpu string) (gpubackend.Driver, error) {
	s := settings.Default()
	_, policy := s.Build()
	switch gpu {
	case gpuSoft:
		return soft.New(soft.Options{Memory: policy.SoftMemory}), nil
	case gpuCUDA:
		return cuda.New(cuda.Options{})
	}
	return nil, errors.New("want soft or cuda")
}
