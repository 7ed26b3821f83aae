// SPDX-License-Identifier: Apache-2.0

package children

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/cuda/nvml"
	"github.com/paracuda/paracuda/gpubackend/cuda/processes"
	"github.com/paracuda/paracuda/gpubackend/device"
	devicechild "github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/socket"
)

func usageCommand() *cobra.Command {
	library := ""
	c := &cobra.Command{
		Use:    "usage",
		Long:   "Started by paracuda device.",
		Hidden: true,
		Args:   cli.TakesNothing,
		RunE:   func(*cobra.Command, []string) error { return tellUsage(library) },
	}
	c.Flags().StringVar(&library, "library", nvml.DefaultLibrary, "NVML's `NAME`")
	return c
}

// tellUsage answers each line that it reads with a line of JSON: what NVIDIA's driver says that the
// host's processes have.
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
		if err := json.NewEncoder(cli.Stdout).Encode(&answer); err != nil {
			return err
		}
	}
	return nil
}

// usageAnswer is a line of an answer, as JSON.
type usageAnswer struct {
	Error string          `json:"error,omitempty"`
	Usage processes.Usage `json:"usage,omitempty"`
}

// memoryAsker asks a GPU's driver about the memory of processes. One goroutine calls it.
type memoryAsker func(pids []int) (ledger.Usage, error)

// usageOf makes the asker for a GPU; soft: for the software GPU.
func usageOf(gpu string, c starts, soft memoryAsker, log *logrus.Entry) memoryAsker {
	if gpu == hostgpus.Soft {
		return soft
	}
	return (&asker{start: c.Usage, log: log}).ask
}

// asker asks NVIDIA's driver through a child, since a driver that crashes or hangs must not take
// the device process with it.
type asker struct {
	// start starts the child with this as its standard input and output.
	start func(*os.File) (device.Process, error)
	log   *logrus.Entry // is told how a child ended
	// patience is how long an answer may take; 0: askerPatience.
	patience time.Duration

	child device.Process
	conn  *net.UnixConn
	lines *bufio.Reader
	again time.Time // no child is started before this time
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
	conn, theirs, err := socket.Connect(socket.Stream)
	if err != nil {
		return err
	}
	defer theirs.Close()
	child, err := a.start(theirs)
	if err != nil {
		conn.Close()
		return fmt.Errorf("start a process that asks the driver: %w", err)
	}
	a.child, a.conn, a.lines = child, conn, bufio.NewReaderSize(conn, askerLine)
	return nil
}

// answer asks the child and waits for what it says.
func (a *asker) answer() (processes.Usage, error) {
	patience := a.patience
	if patience == 0 {
		patience = askerPatience
	}
	if err := a.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(a.conn, "\n"); err != nil {
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
	a.child.Kill()
	_ = a.conn.Close()
	go func(c device.Process) { devicechild.SayEnded(a.log, "usage", c.Wait(), true) }(a.child)
	a.child = nil
}
