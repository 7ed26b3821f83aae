// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
)

// exitCode makes main exit with a code and say nothing: what there is to say has been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is a mistake in the command line, for which main exits with 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// status says what went wrong, in a line, and returns the exit code.
func status(err error) int {
	if failed := stdout.failed(); failed != nil {
		err = fmt.Errorf("standard output: %w", failed)
	}
	if err == nil {
		return 0
	}
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "paracuda:", err)
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}
