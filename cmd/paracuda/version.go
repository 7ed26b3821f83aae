// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// version is that of the program. The build sets it, as scripts/version has it.
var version = "devel"

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Long:  "Prints the version.",
		Args:  takesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(stdout, "paracuda", version)
			return nil
		},
	}
}
