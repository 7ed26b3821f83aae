// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/cgroup"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/turns"
	"github.com/paracuda/paracuda/internal/plain"
	"github.com/paracuda/paracuda/vm"
)

const completionText = `Prints a script that has a shell complete paracuda's commands and
options. bash reads it from /usr/share/bash-completion/completions/paracuda, zsh as _paracuda
from a folder of $fpath, fish from ~/.config/fish/completions/paracuda.fish.`

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "completion bash|zsh|fish",
		Short:                 "print what a shell needs to complete commands",
		Long:                  completionText,
		ValidArgs:             []string{"bash", "zsh", "fish"},
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			if root := c.Root(); len(args) == 1 {
				switch args[0] {
				case "bash":
					return root.GenBashCompletionV2(cli.Stdout, true)
				case "zsh":
					return root.GenZshCompletion(cli.Stdout)
				case "fish":
					return root.GenFishCompletion(cli.Stdout, true)
				}
			}
			return cli.Usagef("completion: want bash, zsh or fish")
		},
	}
}

// typedSetting completes KEY=VALUE for a VM's device process.
func typedSetting(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return settingsOf(settings.Keys(), typed)
}

// setArguments completes the arguments of set: a socket and a device's settings, or after --vm an
// arbiter's.
func setArguments(
	c *cobra.Command, args []string, typed string,
) ([]string, cobra.ShellCompDirective) {
	switch {
	case c.Flags().Changed("vm"):
		return settingsOf(policy.Keys, typed)
	case len(args) == 0:
		return nil, cobra.ShellCompDirectiveDefault
	}
	return settingsOf(settings.Keys(), typed)
}

// settingsOf are the keys, or, once a key is typed, its values if it has a few.
func settingsOf(keys []turns.Setting, typed string) ([]string, cobra.ShellCompDirective) {
	name, _, named := strings.Cut(typed, "=")
	var offers []string
	for _, k := range keys {
		if !named {
			offers = append(offers, k.Name+"=\t"+k.Help)
		} else if k.Name == name && strings.Contains(k.Value, "|") {
			for v := range strings.SplitSeq(k.Value, "|") {
				if v == strings.ToLower(v) { // else it is a placeholder such as N
					offers = append(offers, name+"="+v)
				}
			}
		}
	}
	if named {
		return offers, cobra.ShellCompDirectiveNoFileComp
	}
	return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// kernelNames completes the kernels of the kind of VM that is chosen.
func kernelNames(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	kind := c.Flags().Lookup("vm").Value.String()
	return vm.Kernels(vm.Kind(kind)), cobra.ShellCompDirectiveNoFileComp
}

// bounds completes NAME=VALUE for --cgroup-set.
func bounds(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names := cgroup.Names()
	for i := range names {
		names[i] += "="
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// vmNames completes the names of the VMs that an arbiter has.
func vmNames(path *string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		vms, err := client.List(*path)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := make([]string, len(vms))
		for i := range vms {
			names[i] = plain.Text(vms[i].Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
