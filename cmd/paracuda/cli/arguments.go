// SPDX-License-Identifier: Apache-2.0

// Package cli has what the commands of paracuda share: checks of arguments, errors and exit codes,
// and standard output. Arguments come from operators, who may be wrong but don't lie.
package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/socket"
)

// TakesNothing refuses arguments that aren't options.
func TakesNothing(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if c.Flags().Lookup("set") != nil && strings.Contains(args[0], "=") {
		hint = " (each --set takes one KEY=VALUE)"
	}
	return Usagef("%s: unexpected argument %q%s", c.Name(), args[0], hint)
}

// TakesSocket wants one argument: the socket of a device.
func TakesSocket(c *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return Usagef("%s: want SOCKET", c.Name())
	case 1:
		return CheckSocket(c.Name(), args[0])
	}
	return Usagef("%s: unexpected argument %q: want one SOCKET", c.Name(), args[1])
}

// Complete makes a shell offer values for an option.
func Complete(c *cobra.Command, option string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(option, f); err != nil {
		panic(fmt.Sprintf("%s --%s: %v", c.Name(), option, err)) // there is no such option
	}
}

// Words are the values that an option may have.
func Words(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// Groups are the host's groups, for a shell to offer.
func Groups(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return names(groupFile), cobra.ShellCompDirectiveNoFileComp
}

const groupFile = "/etc/group"

// names are the first fields of the lines of a file such as /etc/group.
func names(file string) (all []string) {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			all = append(all, name)
		}
	}
	return all
}

// Dirs makes a shell offer folders.
func Dirs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// CheckSocket refuses a path that is too long for the kernel.
func CheckSocket(option, path string) error {
	if len(path) > socket.MaxPath {
		return Usagef("%s: the path has %d bytes, and that of a socket %d at most: %s", option,
			len(path), socket.MaxPath, path)
	}
	return nil
}

// CantMake is the error of an option whose file or socket can't be made. It says what to do.
func CantMake(option, path string, err error) error {
	dir := filepath.Dir(path)
	switch is, statErr := os.Stat(dir); {
	case errors.Is(statErr, fs.ErrNotExist):
		return fmt.Errorf("%s %s: its folder isn't there: mkdir -p %s", option, path, dir)
	case errors.Is(statErr, unix.ENOTDIR), statErr == nil && !is.IsDir():
		return fmt.Errorf("%s %s: %s is no folder: choose another path", option, path, dir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return fmt.Errorf("%s: %w: run this as root, or choose a path where you may write", option,
			err)
	}
	return fmt.Errorf("%s: %w", option, err)
}

// ArbiterHelp explains --arbiter.
const ArbiterHelp = "the arbiter's `SOCKET` (default: the host's, or the user's own)"
