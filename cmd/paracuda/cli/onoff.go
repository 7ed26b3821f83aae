// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// OnOff is an option that is on or off.
type OnOff bool

// Add adds it to a command.
func (s *OnOff) Add(c *cobra.Command, name, help string) {
	c.Flags().Var(s, name, "`on|off`: "+help)
	Complete(c, name, Words("on", "off"))
}

func (s *OnOff) Set(value string) error {
	switch value {
	case "on":
		*s = true
	case "off":
		*s = false
	default:
		return fmt.Errorf("want on or off, not %q", value)
	}
	return nil
}

func (s *OnOff) String() string {
	if *s {
		return "on"
	}
	return "off"
}

// Type is what help says of its value.
func (s *OnOff) Type() string { return "on|off" }
