// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
)

const replaceHelp = "have the running device of --control go on in another process, of the " +
	"version that is installed now, and exit"

// replacePatience is how long the other device process may take.
const replacePatience = 30 * time.Second

// replaceDevice has the device process behind a control socket replaced.
func replaceDevice(control string) error {
	if control == "" {
		return cli.Usagef("device: --replace needs --control PATH")
	}
	if err := cli.CheckSocket("--control", control); err != nil {
		return err
	}
	r, err := admin.Replace(control, replacePatience)
	if err != nil {
		return fmt.Errorf("device: --replace: %w", err)
	}
	if r.To == r.From && r.To != version {
		return fmt.Errorf("device: --replace: the program that is installed can't go on with the "+
			"VM, as the device's log says: version %s goes on; this is %s", r.To, version)
	}
	fmt.Fprintf(cli.Stdout, "replaced: version %s goes on in place of %s, after %v\n", r.To, r.From,
		r.Took.Round(time.Millisecond))
	return nil
}
