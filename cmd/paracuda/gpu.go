// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
)

// The GPUs that there are.
const (
	gpuAuto = hostgpus.Auto
	gpuSoft = hostgpus.Soft
	gpuCUDA = hostgpus.CUDA
)

const gpuHelp = "execute on `GPU`: cuda (the host's first NVIDIA GPU), cuda:LIST (those " +
	"with these indices, UUIDs or bus ids), cuda:all, soft (the software GPU), soft:N (N of " +
	"them), auto, or auto:N,memory=SIZE (N of which so much memory is left)"

// gpuOption adds --gpu to a command.
func gpuOption(c *cobra.Command, gpu *string) {
	c.Flags().StringVar(gpu, "gpu", gpuAuto, gpuHelp)
	cli.Complete(c, "gpu", cli.Words(gpuAuto, gpuCUDA, gpuSoft))
}

// chooseGPU settles which kind of GPU to use.
func chooseGPU(want string) (string, error) {
	choice, err := hostgpus.Parse(want)
	if err != nil {
		return "", cli.Usagef("--gpu %w", err)
	}
	if choice.Kind == gpuSoft {
		return gpuSoft, nil
	}
	why, err := probe()
	switch {
	case err != nil:
		return "", err
	case why == "":
		return gpuCUDA, nil
	case choice.Kind == gpuAuto:
		return gpuSoft, nil
	}
	return "", fmt.Errorf("no GPU for --gpu %s: %s; install the NVIDIA driver, or use --gpu soft",
		want, why)
}

// softGPUsOf is how many software GPUs a valid --gpu names; 1 if it names others.
func softGPUsOf(want string) int {
	choice, err := hostgpus.Parse(want)
	if err != nil {
		return 1
	}
	return choice.SoftGPUs()
}

// takeGPUs finds the host's GPUs that choose chooses, and hides the others from the processes that
// this one starts. The software GPU isn't among them.
func takeGPUs(
	want, kind string, softMemory uint64,
	choose func(c *hostgpus.Choice, host []hostgpus.GPU) ([]hostgpus.GPU, error),
) ([]hostgpus.GPU, error) {
	choice, err := hostgpus.Parse(want)
	if err != nil {
		return nil, err
	}
	if kind != gpuCUDA {
		return nil, choice.CheckSoft(softMemory)
	}
	host, err := hostGPUs()
	if err != nil {
		return nil, err
	}
	chosen, err := choose(choice, host)
	if err != nil {
		return nil, err
	}
	if list, ok := hostgpus.Visible(chosen, host); ok {
		err = os.Setenv("CUDA_VISIBLE_DEVICES", list)
	}
	return chosen, err
}

// hostTime is how long the driver may take to list the host's GPUs.
const hostTime = time.Minute

// hostGPUs asks the driver, in a child process, for the GPUs that this process may use.
func hostGPUs() ([]hostgpus.GPU, error) {
	ctx, cancel := context.WithTimeout(context.Background(), hostTime)
	defer cancel()
	c := exec.CommandContext(ctx, self(), "probe", "--json", "--arbiter", noArbiter)
	c.WaitDelay = time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("list the host's GPUs: the driver took more than %v", hostTime)
	}
	var said map[string]probed
	if broken := json.Unmarshal(out, &said); broken != nil {
		return nil, fmt.Errorf("list the host's GPUs: %w", errors.Join(err, broken))
	}
	cuda := said[gpuCUDA]
	if cuda.Error != "" {
		return nil, fmt.Errorf("list the host's GPUs: %s; paracuda doctor looks for the reason",
			cuda.Error)
	}
	return cuda.GPUs, nil
}

// probe returns why the CUDA driver can't be used, or "". A child asks: the device process must not
// load the driver itself.
func probe() (why string, err error) {
	out, err := exec.Command(self(), "probe", "--quick").Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", fmt.Errorf("probe: %w", err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	if line == "cuda: yes" {
		return "", nil
	}
	return strings.TrimPrefix(line, "cuda: no: "), nil
}

// thisProgram is the file that a process was started from, whatever has its path now.
const thisProgram = "/proc/self/exe"

// self is this program's file. An upgrade may replace it while VMs run: their workers must still be
// of the device process's version.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return thisProgram
	}
	return selfAt(path)
}

func selfAt(path string) string {
	there, err := os.Stat(path)
	if err != nil {
		return thisProgram
	}
	if mine, err := os.Stat(thisProgram); err == nil && !os.SameFile(mine, there) {
		return thisProgram
	}
	return path
}
