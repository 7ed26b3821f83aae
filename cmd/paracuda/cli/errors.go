// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
)

// ExitCode makes main exit with a code, silently: all has been said.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is a mistake in the command line, for which main exits with 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usagef makes the error of a mistake in the command line.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Status prints what went wrong, in a line, and returns the exit code.
func Status(err error) int {
	if failed := Stdout.Failed(); failed != nil {
		err = fmt.Errorf("standard output: %w", failed)
	}
	if err == nil {
		return 0
	}
	var code ExitCode
	if errors.As(err, &code) {
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "paracuda:", err)
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}
