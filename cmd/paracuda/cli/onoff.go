// SPDX-License-Identifier: Apache-2.0

package cli

import "fmt"

// OnOff is an option that is on or off.
type OnOff bool

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
