// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/policyfile"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
)

const setText = `Changes policies of a running VM. SOCKET is the device's control socket
(paracuda device --control); it says which programs follow: all, or those that start later.
paracuda device --help lists the keys. With --vm the arbiter is asked, whose keys paracuda
arbiter --help lists: what it sets has precedence, and holds until the VM ends or the arbiter reads
its configuration again. --save also writes the policies to the file that paracuda device --config
reads, for the VM's next starts: /etc/paracuda/vms/NAME.conf for a service.`

func setCommand() *cobra.Command {
	var vm, path, save string
	c := &cobra.Command{
		Use:                   "set SOCKET KEY=VALUE... | --vm NAME KEY=VALUE...",
		Short:                 "change policies of a running VM",
		Long:                  setText,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     setArguments,
		RunE: func(_ *cobra.Command, args []string) error {
			if vm != "" {
				if save != "" {
					return cli.Usagef("set: --save is for SOCKET; " +
						"the arbiter's file is edited by hand")
				}
				return setAtArbiter(path, vm, args)
			}
			return setAndSave(save, args)
		},
	}
	c.Flags().StringVar(&vm, "vm", "", "the VM that has registered as `NAME`")
	c.Flags().StringVar(&save, "save", "", "write the policies to a VM's configuration `FILE`, too")
	c.Flags().StringVar(&path, "arbiter", "", cli.ArbiterHelp)
	cli.Complete(c, "vm", vmNames(&path))
	return c
}

// setAndSave changes policies of the VM whose control socket is the first argument. If there is a
// file to save them to, it is written last, when the VM has taken them all.
func setAndSave(file string, args []string) error {
	if file == "" || len(args) < 2 {
		return setAtDevice(args)
	}
	text, err := readConfig("--save", file)
	if err != nil {
		return err
	}
	var all []policyfile.Setting
	err = eachSetting(args[1:], func(key, value string) {
		all = append(all, policyfile.Setting{Key: key, Value: value})
	})
	if err != nil {
		return err
	}
	changed, err := policyfile.Change(text, all)
	if err != nil {
		return fmt.Errorf("--save %s: %w", file, err)
	}
	if err := setAtDevice(args); err != nil {
		return err
	}
	if err := policyfile.Write(file, changed); err != nil {
		return fmt.Errorf("--save %s: %w", file, err)
	}
	fmt.Fprintf(cli.Stdout, "saved in %s\n", file)
	return nil
}

// setAtDevice changes policies of the VM whose control socket is the first argument.
func setAtDevice(args []string) error {
	if len(args) < 2 {
		return cli.Usagef("set: want SOCKET and KEY=VALUE")
	}
	if err := cli.CheckSocket("set", args[0]); err != nil {
		return err
	}
	if err := checkSettings(args[1:]); err != nil {
		return err
	}
	for _, text := range args[1:] {
		a, err := admin.Ask(args[0], admin.Request{Set: text})
		if err != nil {
			return err
		}
		fmt.Fprintf(cli.Stdout, "%s holds %s\n", text, a.Holds)
	}
	return nil
}

// checkSettings refuses what no device process would take.
func checkSettings(all []string) error {
	s := settings.Default()
	for _, text := range all {
		if err := s.Set(text); err != nil {
			return cli.Usagef("set: %w", err)
		}
	}
	return nil
}

// setAtArbiter changes policies of a VM, all or none.
func setAtArbiter(path, vm string, settings []string) error {
	if len(settings) == 0 {
		return cli.Usagef("set: want --vm NAME and KEY=VALUE")
	}
	if err := policy.CheckName(vm); err != nil {
		return cli.Usagef("set: %w", err)
	}
	if err := cli.CheckSocket("--arbiter", path); err != nil {
		return err
	}
	all := map[string]string{}
	err := eachSetting(settings, func(key, value string) { all[key] = value })
	if err != nil {
		return err
	}
	var p policy.Policy
	if err := p.SetAll(all); err != nil {
		return cli.Usagef("set: %w", err)
	}
	if err := client.SetPolicy(path, vm, all); err != nil {
		return fmt.Errorf("set: %w", err)
	}
	fmt.Fprintf(cli.Stdout, "%s holds for VM %s\n", strings.Join(settings, " "), vm)
	return nil
}

// eachSetting calls take for the key and the value of each setting.
func eachSetting(settings []string, take func(key, value string)) error {
	for _, text := range settings {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return cli.Usagef("set: %q: want KEY=VALUE", text)
		}
		take(key, value)
	}
	return nil
}
