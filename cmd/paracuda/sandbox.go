// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/cmd/paracuda/children"
	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/internal/fix"
)

const passEnvHelp = "give the VM's processes the environment variable `NAME` (may be repeated)"

// home is what starts the VM's processes, which write to stderr.
func (o *deviceOptions) home(
	gpu string, stderr *os.File, log *logrus.Entry, r *remains.Remains,
) (*children.Home, error) {
	c := children.Config{
		GPU: gpu, SoftGPUs: max(1, o.settings.Policy.SoftGPUs), Sandbox: bool(o.sandbox),
		Environment: sandbox.Environment(os.Environ(), o.passEnv), Made: o.made(true, true),
		Logs: o.logs, Stderr: stderr, Log: log, Remains: r,
	}
	if o.arbiter != noArbiter {
		c.Arbiters = client.Paths(o.arbiter)
	}
	return children.New(c)
}

// made lists the sockets that this process makes: for front ends, and for control.
func (o *deviceOptions) made(door, control bool) (paths []string) {
	if door && o.fd < 0 && o.socket != "" {
		paths = append(paths, o.socket)
	}
	if control && o.control != "" {
		paths = append(paths, o.control)
	}
	for i := range paths {
		if path, err := filepath.Abs(paths[i]); err == nil {
			paths[i] = path
		}
	}
	return paths
}

// confineSelf takes from the device process what it doesn't need, once it has opened all files.
func (o *deviceOptions) confineSelf(log *logrus.Entry) error {
	if !o.sandbox {
		return nil
	}
	if err := process.LeaveNoCore(); err != nil {
		return err
	}
	if err := sandbox.NotDumpable(); err != nil {
		return err
	}
	missing, err := sandbox.KeepOnly()
	if missing != nil && err == nil {
		log.WithError(missing).Debug("the device process may have the rights of what it executes")
	}
	if err != nil {
		return err
	}
	if _, err := sandbox.Landlock(); err != nil {
		log.WithError(err).Info("this process, workers and mover keep the right to open files: " +
			fix.Landlock("/", err))
	}
	return process.Filter(sandbox.Device, sandbox.Files{})
}
