// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
)

// sandboxFlag says whether the processes of a VM are kept in a sandbox.
type sandboxFlag bool

func (s *sandboxFlag) Set(value string) error {
	switch value {
	case "on":
		*s = true
	case "off":
		*s = false
	default:
		return fmt.Errorf("want on or off, not %q", value)
	}
	return nil
}

func (s *sandboxFlag) String() string {
	if *s {
		return "on"
	}
	return "off"
}

// Type is what help says of its value.
func (s *sandboxFlag) Type() string { return "on|off" }

// sandboxOption adds --sandbox to a command.
func sandboxOption(c *cobra.Command, s *sandboxFlag) {
	c.Flags().Var(s, "sandbox", sandboxHelp)
	complete(c, "sandbox", words("on", "off"))
}

const (
	sandboxHelp = "`on|off`: whether to take from workers and mover what they don't need"
	passEnvHelp = "give workers and mover the environment variable `NAME` (may be repeated)"
)

// start is how children are started, and with which environment.
type start struct {
	sandbox     sandboxFlag
	watched     bool // this process couldn't count their memory if they weren't dumpable
	run         func(*exec.Cmd) error
	environment []string // nil: this process's
}

// confineSelf takes from the device process what it doesn't need.
func (o *deviceOptions) confineSelf() error {
	if !o.sandbox {
		return nil
	}
	if err := leaveNoCore(); err != nil {
		return err
	}
	return sandbox.NotDumpable()
}

// confine makes a sandbox for the children, or says that there is none.
func (o *deviceOptions) confine(gpu string, log *logrus.Entry) (start, error) {
	if !o.sandbox {
		log.Warn("--sandbox=off: a program that takes a worker over has this process's rights")
		return start{run: startApart}, nil
	}
	starter, missing, err := sandbox.NewStarter(compatLayout)
	if err != nil {
		return start{}, err
	}
	if missing != nil {
		log.WithError(missing).Warn("workers and mover keep some of this process's privileges")
	}
	environment := sandbox.Environment(os.Environ(), o.passEnv)
	if environment == nil {
		environment = []string{}
	}
	watched := gpu == gpuSoft && !sandbox.MayLook()
	if watched {
		log.Info("other processes of this user can look into workers and mover: " +
			"without CAP_SYS_PTRACE their memory can't be counted otherwise")
	}
	return start{true, watched, starter.Start, environment}, nil
}

// confine returns what a child of this role calls when it is ready, before it serves a guest.
// There is a list of system calls for the software GPU; what NVIDIA's driver needs isn't listed
// yet.
func (o *childOptions) confine(soft sandbox.Role) func(gpu string) error {
	return func(gpu string) error {
		if !o.sandbox {
			return nil
		}
		if !o.watched {
			if err := sandbox.NotDumpable(); err != nil {
				return err
			}
		}
		if gpu != gpuSoft {
			return nil
		}
		// Reads the time zone's file, for the log, while files can be opened.
		_, _ = time.Now().Zone()
		return sandbox.Filter(soft)
	}
}
