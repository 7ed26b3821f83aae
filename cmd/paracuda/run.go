// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/children"
	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/cmd/paracuda/plug"
	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/size"
	"github.com/paracuda/paracuda/qemu"
	"github.com/paracuda/paracuda/vm"
	"github.com/paracuda/paracuda/vm/scratch"
)

// runOptions are the flags of `paracuda run`.
type runOptions struct {
	kind, gpu, mem, stats, kernel, trace, control string
	arbiter, name                                 string
	logs                                          logs.Flags
	cpus                                          int
	carrier                                       qemu.Carrier
	set, write                                    []string
	report, verbose                               bool
	sandbox                                       cli.OnOff
	keeper                                        cli.OnOff
	settings                                      settings.Settings // those of set
	program                                       []string
}

const runText = `Boots a throw-away VM that sees the host's files, with the GPU attached, and
runs the program in it. The program's output passes through, and its exit code is that of
paracuda. What it writes in the current directory, the home directory and /tmp ends with the VM,
but for what --write keeps.`

func runCommand() *cobra.Command {
	o := runOptions{sandbox: true, settings: settings.Default()}
	c := &cobra.Command{
		Use:                   "run [options] -- PROGRAM ARGS...",
		Short:                 "run a program in a throw-away VM with the GPU attached",
		Long:                  runText,
		DisableFlagsInUseLine: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if o.program = args; len(args) == 0 {
				return cli.Usagef("run: no program: want " +
					"paracuda run [options] -- PROGRAM [ARGUMENT]")
			}
			return o.run(int(o.settings.Space.Channels))
		},
	}
	c.Flags().SetInterspersed(false) // the program's options are its own
	o.options(c)
	gpuOption(c, &o.gpu)
	plug.CarrierOption(c, &o.carrier)
	children.SandboxOption(c, &o.sandbox)
	keeperOption(c, &o.keeper)
	o.logs.Add(c, "warning")
	sharingFlags(c, &o.arbiter, &o.name, "run- and the process's number")
	cli.Complete(c, "vm", cli.Words(string(vm.QEMU), string(vm.UML)))
	cli.Complete(c, "set", typedSetting)
	cli.Complete(c, "kernel", kernelNames)
	cli.Complete(c, "write", cli.Dirs)
	return c
}

// options adds those that no other command has.
func (o *runOptions) options(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.kind, "vm", string(vm.QEMU), "`KIND` of VM: qemu or uml (User Mode Linux)")
	f.StringVar(&o.mem, "mem", "1G", "`SIZE` of the VM's memory, with K, M, G or T")
	f.IntVar(&o.cpus, "cpus", 0, "`N` processors (default: the host's, 8 at most)")
	f.StringVar(&o.kernel, "kernel", "", "guest `KERNEL`: 6.1 (the default) or 6.12 in QEMU, "+
		"7.2, 7.2-debug, 7.2-races or 7.2-threads in User Mode Linux")
	f.StringVar(&o.stats, "stats", "", "write counters to `FILE`, as JSON, at the end")
	f.StringVar(&o.trace, "trace", "", "write the vhost-user messages to `FILE`, as lines of hex")
	f.StringVar(&o.control, "control", "",
		"answer paracuda set, stats, suspend, resume and precopy on the UNIX socket `PATH`")
	f.BoolVar(&o.report, "report", false,
		"say at the end, on standard error, what was used: front end, guest kernel, device")
	f.BoolVar(&o.verbose, "console", false, "show the guest kernel's messages on standard error")
	f.Func("write", "keep on the host what the program writes below `DIR`, which is made if need "+
		"be (may be repeated)", func(v string) error {
		o.write = append(o.write, v)
		return nil
	})
	f.Func("set",
		"set a policy of the VM, as `KEY=VALUE` (see paracuda device --help; may be repeated)",
		func(v string) error {
			o.set = append(o.set, v)
			return o.settings.Set(v)
		})
}

func (o *runOptions) run(channels int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	gpu, err := gpuKind(o.gpu)
	if err != nil {
		return err
	}
	config, err := o.config(channels)
	if err != nil {
		return err
	}
	dir, err := scratch.New()
	if err != nil {
		return err
	}
	defer dir.Remove()
	config.Device.Socket = filepath.Join(dir.Path, "gpu.sock")
	if o.gpu != gpuAuto {
		gpu = o.gpu
	}
	config.Step("starting the device on the GPU " + gpu)
	serve, err := o.startDevice(gpu, config.Device.Socket)
	if err != nil {
		return err
	}
	result, err := vm.Run(ctx, config)
	config.Step("")
	failed := serve.end()
	if failed != nil && !hasSaidWhy(failed) {
		fmt.Fprintln(os.Stderr, "paracuda: device:", failed)
	}
	if err != nil {
		return err
	}
	if config.Warn != nil && len(result.Lost) > 0 {
		config.Warn(lostLine(result.Lost))
	}
	if o.report {
		fmt.Fprintf(os.Stderr, "paracuda: ran in %s, guest kernel %s, device %s\n", result.FrontEnd,
			result.GuestKernel, gpu)
	}
	switch {
	case result.ExitCode != 0:
		return cli.ExitCode(result.ExitCode)
	case result.Output != nil:
		return fmt.Errorf("the program's output: %w", result.Output)
	case failed != nil:
		return cli.ExitCode(1)
	}
	return nil
}

// hasSaidWhy says whether a process of ours that failed has written a line.
func hasSaidWhy(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.Exited()
}

// lostLine says what ended with the VM.
func lostLine(lost []vm.Lost) string {
	parts := make([]string, len(lost))
	for i, l := range lost {
		noun := "files"
		if l.Files == 1 {
			noun = "file"
		}
		parts[i] = fmt.Sprintf("%d %s in %s", l.Files, noun, strconv.Quote(l.Dir))
	}
	return "gone with the VM: " + strings.Join(parts,
		", ") + " (--write DIR keeps what is written below DIR)"
}

// makeDirs makes the missing directories of --write.
func (o *runOptions) makeDirs() error {
	for _, dir := range o.write {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return fmt.Errorf("--write %s: %w", dir, err)
		}
	}
	return nil
}

// leastMemory is what a guest that does nothing needs in order to boot.
var leastMemory = map[vm.Kind]uint64{vm.QEMU: 96 << 20, vm.UML: 32 << 20}

// memory reads --mem.
func (o *runOptions) memory(kind vm.Kind) (int64, error) {
	bytes, err := size.Parse(o.mem)
	if err != nil {
		return 0, cli.Usagef("--mem: %w", err)
	}
	if least := leastMemory[kind]; bytes < least {
		return 0,
			cli.Usagef("--mem %s: want %dM or more "+
				"(without a K, M, G or T behind it, SIZE is in bytes)", o.mem, least>>20)
	}
	return int64(min(bytes, math.MaxInt64)), nil
}

// config says what VM to boot.
func (o *runOptions) config(channels int) (vm.Config, error) {
	kind := vm.Kind(o.kind)
	if kind != vm.QEMU && kind != vm.UML {
		return vm.Config{}, cli.Usagef("--vm %s: want qemu or uml", o.kind)
	}
	memory, err := o.memory(kind)
	switch {
	case err != nil:
		return vm.Config{}, err
	case o.kernel != "" && !slices.Contains(vm.Kernels(kind), o.kernel):
		return vm.Config{}, cli.Usagef("--kernel %s: want one of %s with --vm %s", o.kernel,
			strings.Join(vm.Kernels(kind), ", "), kind)
	case kind == vm.UML && o.carrier != "":
		return vm.Config{},
			cli.Usagef("--carrier %s: it is for --vm qemu; User Mode Linux is a front end itself",
				o.carrier)
	case o.cpus < 0 || o.cpus > runtime.NumCPU():
		return vm.Config{},
			cli.Usagef("--cpus %d: want 1 to %d, as many as the host has", o.cpus, runtime.NumCPU())
	}
	level, err := logs.ParseLevel(o.logs.Level)
	if err == nil {
		err = o.logs.Settle()
	}
	if err != nil {
		return vm.Config{}, err
	}
	assets := vm.FindAssets()
	driver, err := assets.Driver(kind, o.kernel)
	if err != nil {
		return vm.Config{}, err
	}
	if err := o.makeDirs(); err != nil {
		return vm.Config{}, err
	}
	c := vm.Config{
		Kind:    kind,
		Machine: vm.Machine{Kernel: o.kernel, Memory: memory, CPUs: o.cpus},
		Device:  vm.Device{Queues: channels + 1, Carrier: o.carrier},
		Driver: vm.GuestDriver{Modules: []vm.Module{driver}, File: "/dev/paracuda",
			LibDir: assets.LibDir()},
		Program: vm.Program{Name: o.program[0], Args: o.program[1:], Write: o.write,
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr},
		Assets: assets,
	}
	c.Step = cli.NewProgress(os.Stderr).Now
	if level < logrus.WarnLevel {
		c.Step = func(string) {}
	}
	if level >= logrus.WarnLevel {
		c.Warn = func(text string) { fmt.Fprintln(os.Stderr, "paracuda:", text) }
	}
	if o.verbose {
		c.Machine.Console, c.Machine.Verbose = os.Stderr, true
	}
	return c, nil
}

// deviceProcess is the device of a run.
type deviceProcess struct {
	cmd  *exec.Cmd
	done chan error
}

// startDevice starts `paracuda device` and waits until its socket is there.
func (o *runOptions) startDevice(gpu, socket string) (*deviceProcess, error) {
	args := []string{"device", "--socket-path", socket, "--gpu", gpu,
		"--sandbox", o.sandbox.String(), "--keeper", o.keeper.String(), "--arbiter", o.arbiter,
		"--name", cmp.Or(o.name, fmt.Sprint("run-", os.Getpid()))}
	args = append(args, o.logs.Args()...)
	for _, s := range o.set {
		args = append(args, "--set", s)
	}
	for name, value := range map[string]string{"--stats": o.stats, "--trace": o.trace,
		"--control": o.control} {
		if value != "" {
			args = append(args, name, value)
		}
	}
	c := exec.Command(process.Self(), args...)
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start the device: %w", err)
	}
	d := &deviceProcess{cmd: c, done: make(chan error, 1)}
	go func() { d.done <- c.Wait() }()
	const limit = hostTime + 10*time.Second // it asks the driver first
	for begin := time.Now(); time.Since(begin) < limit; {
		if _, err := os.Stat(socket); err == nil {
			return d, nil
		}
		select {
		case err := <-d.done:
			if hasSaidWhy(err) {
				return nil, cli.ExitCode(1)
			}
			return nil, fmt.Errorf("start the device: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	_ = c.Process.Kill()
	return nil, fmt.Errorf("start the device: no socket within %v", limit)
}

// stop asks the device to end, VM or not. It writes its counters all the same.
func (d *deviceProcess) stop() { _ = d.cmd.Process.Signal(syscall.SIGTERM) }

// end waits for the device process. It ends by itself when its VM is gone, unless no driver had
// come to use it; so it is told in any case.
func (d *deviceProcess) end() error {
	select {
	case err := <-d.done:
		return err
	case <-time.After(time.Second):
		d.stop()
	}
	select {
	case err := <-d.done:
		if e := (*exec.ExitError)(nil); errors.As(err, &e) &&
			e.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM {
			return nil // it has just ended by itself
		}
		return err
	case <-time.After(endLimit + endLook):
		_ = d.cmd.Process.Kill()
		return errors.New("killed: it did not end with its VM")
	}
}
