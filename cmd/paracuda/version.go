// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// version is that of the program, set when a release is built.
var version = "0.1.0"

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
