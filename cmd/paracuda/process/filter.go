// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/internal/fix"
)

// Filter takes all files but these from this process, and makes the kernel end it when it makes a
// system call that its role doesn't need.
func Filter(role sandbox.Role, files sandbox.Files) error {
	if err := onlyFiles(files); err != nil {
		return err
	}
	return FilterCalls(role)
}

// FilterAsking does so for a worker with that control connection, and returns what decides on its
// mappings of the guest's memory; -1: nothing does, since missing.
func FilterAsking(
	role sandbox.Role, files sandbox.Files, control int,
) (listener int, missing, err error) {
	if err := onlyFiles(files); err != nil {
		return -1, nil, err
	}
	if listener, missing, err = sandbox.FilterAsking(role, control); err != nil {
		return -1, nil, noFilter(err)
	}
	return listener, missing, nil
}

// onlyFiles takes all files but these from this process.
func onlyFiles(files sandbox.Files) error {
	// For the log: this reads the time zone's file while files can still be opened.
	_, _ = time.Now().Zone()
	return sandbox.OnlyFiles(files)
}

// noFilter names the fix.
func noFilter(err error) error { return fmt.Errorf("%w: %s", err, fix.Seccomp("/")) }

// FilterCalls makes the kernel end this process when it makes a system call that its role doesn't
// need.
func FilterCalls(role sandbox.Role) error {
	if err := sandbox.Filter(role); err != nil {
		return noFilter(err)
	}
	return nil
}
