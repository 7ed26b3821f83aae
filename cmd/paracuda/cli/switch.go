// SPDX-License-Identifier: Apache-2.0

package cli

import "fmt"

// Switch is an option that is on or off.
type Switch bool

func (s *Switch) Set(value string) error {
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

func (s *Switch) String() string {
	if *s {
		return "on"
	}
	return "off"
}

// Type is what help says of its value.
func (s *Switch) Type() string { return "on|off" }
