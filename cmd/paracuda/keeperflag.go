// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
)

const on cli.OnOff = true

// keeperOption adds --keeper to a command.
func keeperOption(c *cobra.Command, k *cli.OnOff) {
	k.Add(c, "keeper", "whether another device process goes on when this one dies")
}

// keeperOptions adds --keeper, and what a keeper tells the device process.
func (o *deviceOptions) keeperOptions(c *cobra.Command) {
	keeperOption(c, &o.keeper)
	f := c.Flags()
	f.IntVar(&o.kept, "kept", -1, "started by a keeper, on the other end of descriptor `N`")
	f.IntVar(&o.keptControl, "kept-control", -1, "the same, with the control socket `N`")
	_, _ = f.MarkHidden("kept"), f.MarkHidden("kept-control")
}
