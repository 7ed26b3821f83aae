// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
)

// keeperFlag is --keeper: whether a device process has a keeper.
type keeperFlag = cli.OnOff

const on keeperFlag = true

const keeperHelp = "`on|off`: whether another device process goes on when this one dies"

// keeperOption adds --keeper to a command.
func keeperOption(c *cobra.Command, k *keeperFlag) {
	c.Flags().Var(k, "keeper", keeperHelp)
	cli.Complete(c, "keeper", cli.Words("on", "off"))
}

// keeperOptions adds --keeper, and what a keeper tells the device process.
func (o *deviceOptions) keeperOptions(c *cobra.Command) {
	keeperOption(c, &o.keeper)
	f := c.Flags()
	f.IntVar(&o.kept, "kept", -1, "started by a keeper, on the other end of descriptor `N`")
	f.IntVar(&o.keptControl, "kept-control", -1, "the same, with the control socket `N`")
	_, _ = f.MarkHidden("kept"), f.MarkHidden("kept-control")
}
