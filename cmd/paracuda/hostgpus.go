// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
)

// hostTime is how long the driver may take to list the host's GPUs.
const hostTime = time.Minute

// hostGPUs asks the driver, in a child process, for the GPUs that this process may use.
func hostGPUs() ([]hostgpus.GPU, error) {
	ctx, cancel := context.WithTimeout(context.Background(), hostTime)
	defer cancel()
	c := exec.CommandContext(ctx, process.Self(), "probe", "--json", "--arbiter", noArbiter)
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
	out, err := exec.Command(process.Self(), "probe", "--quick").Output()
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
