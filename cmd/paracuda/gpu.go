// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
)

// The GPUs that there are.
const (
	gpuAuto = "auto"
	gpuSoft = "soft"
	gpuCUDA = "cuda"
)

const gpuHelp = "execute on `GPU`: cuda (the host's NVIDIA GPU), soft (the software GPU), " +
	"or auto"

// gpuOption adds --gpu to a command.
func gpuOption(c *cobra.Command, gpu *string) {
	c.Flags().StringVar(gpu, "gpu", gpuAuto, gpuHelp)
	complete(c, "gpu", words(gpuAuto, gpuCUDA, gpuSoft))
}

// chooseGPU settles which GPU to use.
func chooseGPU(want string) (string, error) {
	switch want {
	case gpuSoft:
		return gpuSoft, nil
	case gpuAuto, gpuCUDA:
	default:
		return "", usagef("--gpu %s: want auto, soft or cuda", want)
	}
	why, err := probe()
	switch {
	case err != nil:
		return "", err
	case why == "":
		return gpuCUDA, nil
	case want == gpuAuto:
		return gpuSoft, nil
	}
	return "", fmt.Errorf("no GPU for --gpu cuda: %s; install the NVIDIA driver, or use --gpu soft",
		why)
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

// self is this program's file. An upgrade puts another in its place while VMs run: their workers
// are still of the device process's version.
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
