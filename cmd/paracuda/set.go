// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/device"
)

const setText = `Changes policies of a running VM. SOCKET is the device's control socket
(paracuda device --control); it says which programs follow: all, or those that start later.
paracuda device --help lists the keys. With --vm the arbiter is asked, whose keys paracuda
arbiter --help lists: what it sets is stronger, and holds until the VM ends or the arbiter reads
its configuration again.`

func setCommand() *cobra.Command {
	var vm, path string
	c := &cobra.Command{
		Use:                   "set SOCKET KEY=VALUE... | --vm NAME KEY=VALUE...",
		Short:                 "change policies of a running VM",
		Long:                  setText,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     setArguments,
		RunE: func(_ *cobra.Command, args []string) error {
			if vm != "" {
				return setAtArbiter(path, vm, args)
			}
			return setAtDevice(args)
		},
	}
	c.Flags().StringVar(&vm, "vm", "", "the VM that has registered as `NAME`")
	c.Flags().StringVar(&path, "arbiter", "", arbiterHelp)
	complete(c, "vm", vmNames(&path))
	return c
}

// setAtDevice changes policies of the VM whose control socket comes first.
func setAtDevice(args []string) error {
	if len(args) < 2 {
		return usagef("set: want SOCKET and KEY=VALUE")
	}
	if err := checkSocket("set", args[0]); err != nil {
		return err
	}
	for _, text := range args[1:] {
		a, err := device.Ask(args[0], device.Request{Set: text})
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s holds %s\n", text, a.Holds)
	}
	return nil
}

// setAtArbiter changes policies of a VM, all or none.
func setAtArbiter(path, vm string, settings []string) error {
	if len(settings) == 0 {
		return usagef("set: want --vm NAME and KEY=VALUE")
	}
	if err := policy.CheckName(vm); err != nil {
		return usagef("set: %w", err)
	}
	if err := checkSocket("--arbiter", path); err != nil {
		return err
	}
	all := map[string]string{}
	for _, text := range settings {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return usagef("set: %q: want KEY=VALUE", text)
		}
		all[key] = value
	}
	var p policy.Policy
	if err := p.SetAll(all); err != nil {
		return usagef("set: %w", err)
	}
	if err := client.SetPolicy(path, vm, all); err != nil {
		return fmt.Errorf("set: %w", err)
	}
	fmt.Fprintf(stdout, "%s holds for VM %s\n", strings.Join(settings, " "), vm)
	return nil
}
