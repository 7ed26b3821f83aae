// SPDX-License-Identifier: Apache-2.0

// Command paracuda gives virtual machines a paravirtual CUDA GPU.
//
// Each subcommand has a file of its own, which makes a cobra.Command and reads its options.
// command.go holds what all have in common, and errors.go what the exit code says.
package main

import "os"

func main() {
	if code := status(dispatch(os.Args[1:])); code != 0 {
		os.Exit(code)
	}
}
