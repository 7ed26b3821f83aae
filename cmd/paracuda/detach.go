// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/qemu"
)

func detachCommand() *cobra.Command {
	var qmp, id string
	c := &cobra.Command{
		Use:   "detach --qmp SOCKET [--id ID]",
		Short: "take a GPU out of a running QEMU",
		Long:  "Takes the GPU out of a running QEMU, by QMP.",
		Args:  cli.TakesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE:                  func(*cobra.Command, []string) error { return detach(qmp, id) },
	}
	c.Flags().StringVar(&qmp, "qmp", "", "QEMU's QMP `SOCKET`")
	c.Flags().StringVar(&id, "id", "", "`ID` of the device in QEMU (default paracuda0)")
	return c
}

func detach(qmp, id string) error {
	if qmp == "" {
		return cli.Usagef("detach: want --qmp SOCKET")
	}
	if err := cli.CheckSocket("--qmp", qmp); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), attachTimeout)
	defer cancel()
	return qemu.Detach(ctx, qmp, id)
}
