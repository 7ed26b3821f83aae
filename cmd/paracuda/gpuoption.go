// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

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

// gpuKind settles which kind of GPU a --gpu means on this host.
func gpuKind(want string) (string, error) {
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
