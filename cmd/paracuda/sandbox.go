// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/sirupsen/logrus"

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

const (
	sandboxHelp = "`on` or off: take from workers and mover what they don't need"
	passEnvHelp = "give workers and mover the environment variable `NAME` (may be repeated)"
)

// start is how children are started, and with which environment.
type start struct {
	run         func(*exec.Cmd) error
	environment []string // nil: this process's
}

// confine makes a sandbox for the children, or says that there is none.
func (o *deviceOptions) confine(log *logrus.Entry) (start, error) {
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
	return start{run: starter.Start, environment: environment}, nil
}
