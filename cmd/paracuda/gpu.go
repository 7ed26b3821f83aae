// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/cuda"
)

// The GPUs that there are.
const (
	gpuAuto = "auto"
	gpuSoft = "soft"
	gpuCUDA = "cuda"
)

const gpuHelp = "`GPU` to execute on: cuda (the host's NVIDIA GPU), soft (the software GPU), or auto"

// runProbe says whether the host's CUDA driver can be used. The device process runs it as a child,
// since it must not load the driver itself.
func runProbe(args []string) error {
	f := newFlags("probe", "", "Says which GPUs the host has for guests.")
	if err := parse(f, args); err != nil {
		return err
	}
	if err := cuda.Available(); err != nil {
		fmt.Fprintln(stdout, "cuda: no:", err)
		fmt.Fprintln(stdout, "soft: yes")
		return exitCode(1)
	}
	fmt.Fprintln(stdout, "cuda: yes")
	fmt.Fprintln(stdout, "soft: yes")
	return nil
}

// chooseGPU settles which GPU to use.
func chooseGPU(want string) (string, error) {
	switch want {
	case gpuSoft:
		return gpuSoft, nil
	case gpuAuto, gpuCUDA:
	default:
		return "", fmt.Errorf("--gpu %s: want auto, soft or cuda", want)
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

// probe returns why the CUDA driver can't be used, or "".
func probe() (why string, err error) {
	out, err := exec.Command(self(), "probe").Output()
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

// self is this program's file.
func self() string {
	if path, err := os.Executable(); err == nil {
		return path
	}
	return "/proc/self/exe"
}
