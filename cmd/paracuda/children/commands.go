// SPDX-License-Identifier: Apache-2.0

package children

import (
	"fmt"
	"io"
	"os"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Commands are what the VM's processes execute, by their names, in a program of this version.
func Commands(version string) map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"worker": func() *cobra.Command { return childCommand("worker", version, runWorker) },
		"mover":  func() *cobra.Command { return childCommand("mover", version, runMover) },
		"usage":  usageCommand, "starter": starterCommand, "init": initCommand,
	}
}

// childOptions are the flags of worker and mover.
type childOptions struct {
	logs    logs.Flags
	sandbox cli.OnOff
	watched bool
	version string // of the program
}

// childCommand makes worker or mover, which paracuda device starts.
func childCommand(role, version string, run func(o *childOptions) error) *cobra.Command {
	o := childOptions{sandbox: true, version: version}
	c := &cobra.Command{
		Use:    role,
		Long:   "Started by paracuda device.",
		Hidden: true,
		Args:   cli.TakesNothing,
		RunE: func(*cobra.Command, []string) error {
			if err := startChild(role); err != nil {
				return err
			}
			return run(&o)
		},
	}
	o.logs.Add(c, "info")
	o.logs.AddVM(c)
	SandboxOption(c, &o.sandbox)
	c.Flags().BoolVar(&o.watched, "watched", false, "stay dumpable in the sandbox")
	return c
}

// startChild sets up what worker and mover have in common.
func startChild(role string) error {
	if _, err := unix.GetsockoptInt(ControlFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return fmt.Errorf("%s: no control connection: paracuda device starts %[1]ss by itself",
			role)
	}
	process.OutliveTerminal()
	return process.LeaveNoCore()
}

// begin opens a child's log, which the caller ends, and its connection to the device process.
func (o *childOptions) begin(
	to io.Writer, role string,
) (log *logrus.Entry, endLog func(), control *handover.Conn, err error) {
	log, endLog, err = logs.New(to, &o.logs, role)
	if err != nil {
		return nil, nil, nil, err
	}
	log.WithField("version", o.version).Debug("starts")
	control, err = handover.NewConn(os.NewFile(ControlFD, "control"))
	if err != nil {
		endLog()
		return nil, nil, nil, err
	}
	return log, endLog, control, nil
}

// SandboxOption adds --sandbox to a command.
func SandboxOption(c *cobra.Command, s *cli.OnOff) {
	s.Add(c, "sandbox", "whether the VM's processes keep only the rights and files that they need")
}
