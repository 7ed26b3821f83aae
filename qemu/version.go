// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"fmt"
	"os/exec"
)

// Version is a release of QEMU.
type Version struct{ Major, Minor, Micro int }

func (v Version) String() string {
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Micro)
}

// Before tells whether v came out before w.
func (v Version) Before(w Version) bool {
	if v.Major != w.Major {
		return v.Major < w.Major
	}
	if v.Minor != w.Minor {
		return v.Minor < w.Minor
	}
	return v.Micro < w.Micro
}

// check returns an error if this QEMU is too old for the carrier.
func (v Version) check(c Carrier) error {
	oldest := carriers[c].oldest
	if !v.Before(oldest) {
		return nil
	}
	return fmt.Errorf("QEMU %v is too old for %s: install %d.%d or later",
		v, carriers[c].driver, oldest.Major, oldest.Minor)
}

// CheckVersion asks the program for its version, and returns an error if it is too old for the
// carrier.
func CheckVersion(ctx context.Context, program string, c Carrier) (Version, error) {
	text, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return Version{}, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	v, err := parseVersion(string(text))
	if err != nil {
		return Version{}, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	return v, v.check(c)
}

func parseVersion(text string) (Version, error) {
	var v Version
	_, err := fmt.Sscanf(text, "QEMU emulator version %d.%d.%d", &v.Major, &v.Minor, &v.Micro)
	if err != nil {
		return v, fmt.Errorf("it answers %.60q", text)
	}
	return v, nil
}
