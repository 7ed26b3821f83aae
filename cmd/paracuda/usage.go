// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/gpubackend/cuda/processes"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	softusage "github.com/paracuda/paracuda/gpubackend/soft/usage"
)

func usageCommand() *cobra.Command {
	library := ""
	c := &cobra.Command{
		Use:    "usage",
		Long:   "Started by paracuda device.",
		Hidden: true,
		Args:   takesNothing,
		RunE:   func(*cobra.Command, []string) error { return tellUsage(library) },
	}
	c.Flags().StringVar(&library, "library", processes.DefaultLibrary, "NVML's `NAME`")
	return c
}

// tellUsage tells on each line that it reads what NVIDIA's driver says that the host's processes
// have, as a line of JSON.
func tellUsage(library string) error {
	l, err := processes.Open(library)
	answer := usageAnswer{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err == nil {
			answer.Usage, err = l.Read()
		}
		if err != nil {
			answer.Error = err.Error()
		}
		if err := json.NewEncoder(stdout).Encode(&answer); err != nil {
			return err
		}
	}
	return nil
}

// usageAnswer is a line of JSON.
type usageAnswer struct {
	Error string          `json:"error,omitempty"`
	Usage processes.Usage `json:"usage,omitempty"`
}

// usageOf returns what asks a GPU's driver about the memory of processes. One goroutine calls it.
func usageOf(gpu string, s start) func(pids []int) (ledger.Usage, error) {
	if gpu == gpuSoft {
		return softusage.Ask
	}
	return (&asker{start: s, command: []string{self(), "usage"}}).ask
}

// asker asks NVIDIA's driver through a child, since a driver that crashes or hangs must not take
// the device process with it.
type asker struct {
	start   start
	command []string
	// patience is how long an answer may take; 0: askerPatience.
	patience time.Duration

	child   *exec.Cmd
	in, out *os.File
	lines   *bufio.Reader
	again   time.Time // no child is started before
}

const (
	askerPatience = 5 * time.Second // for an answer
	askerPause    = time.Minute     // after a child that was of no use
	askerLine     = 1 << 20         // bytes of an answer at most
)

var errAskerPauses = errors.New("it was asked in vain a moment ago")

func (a *asker) ask([]int) (ledger.Usage, error) {
	if a.child == nil {
		if time.Now().Before(a.again) {
			return nil, errAskerPauses
		}
		if err := a.begin(); err != nil {
			a.again = time.Now().Add(askerPause)
			return nil, err
		}
	}
	usage, err := a.answer()
	if err != nil {
		a.end()
		a.again = time.Now().Add(askerPause)
		return nil, fmt.Errorf("ask the driver for the memory of processes: %w", err)
	}
	return usage, nil
}

// begin starts the child.
func (a *asker) begin() error {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer theirOut.Close()
	c := exec.Command(a.command[0], a.command[1:]...)
	c.Stdin, c.Stdout, c.Env = theirIn, theirOut, a.start.environment
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := a.start.run(c); err != nil {
		in.Close()
		out.Close()
		return fmt.Errorf("start a process that asks the driver: %w", err)
	}
	_ = goFirst(c.Process.Pid, "usage") // what it takes is little, and not the guest's
	a.child, a.in, a.out = c, in, out
	a.lines = bufio.NewReaderSize(out, askerLine)
	return nil
}

// answer asks the child and waits for what it says.
func (a *asker) answer() (processes.Usage, error) {
	patience := a.patience
	if patience == 0 {
		patience = askerPatience
	}
	if err := a.out.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(a.in, "\n"); err != nil {
		return nil, err
	}
	line, err := a.lines.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	var answer usageAnswer
	if err := json.Unmarshal(line, &answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return answer.Usage, nil
}

// end ends the child, and doesn't wait for it: it may hang in the driver.
func (a *asker) end() {
	_ = a.child.Process.Kill()
	_ = a.in.Close()
	_ = a.out.Close()
	go func(c *exec.Cmd) { _ = c.Wait() }(a.child)
	a.child = nil
}
