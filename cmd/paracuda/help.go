// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// helpWidth is how long the lines of options are.
const helpWidth = 100

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "explain a command",
		Long:  "Explains a command: as paracuda COMMAND --help.",
		ValidArgsFunction: func(c *cobra.Command, _ []string, _ string) ([]string,
			cobra.ShellCompDirective) {
			return commandNames(c.Root()), cobra.ShellCompDirectiveNoFileComp
		},
		DisableFlagsInUseLine: true,
		RunE: func(help *cobra.Command, args []string) error {
			root := help.Root()
			if len(args) == 0 {
				return root.Help()
			}
			c, _, err := root.Find(args[:1])
			if err != nil || c == root {
				return unknownCommand(root, args[0])
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

func commandNames(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name()+"\t"+c.Short)
		}
	}
	return names
}

// printHelp explains a command.
func printHelp(w io.Writer, c *cobra.Command) {
	if !c.HasParent() {
		fmt.Fprintf(w, "%s\n\nCommands (each has --help):\n", c.Long)
		t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(t, "  %s\t%s\n", sub.Name(), sub.Short)
			}
		}
		_ = t.Flush()
		return
	}
	fmt.Fprintf(w, "Usage: %s\n\n%s\n", c.UseLine(), c.Long)
	fmt.Fprintf(w, "\nOptions:\n%s", c.Flags().FlagUsagesWrapped(helpWidth))
	if keys, of := keysOf(c); keys != nil {
		fmt.Fprintf(w, "\n%s:\n", of)
		printKeys(w, keys)
	}
}

// keysOf are the policies that a command knows, and where they stand.
func keysOf(c *cobra.Command) (keys []turns.Key, of string) {
	switch c.Name() {
	case "device":
		return settings.Keys(), "Keys for --set"
	case "arbiter":
		return policy.Keys, "The file of --config is TOML: [default] for VMs that it doesn't " +
			"name, [vm.NAME] for\nothers, with the keys"
	}
	return nil, ""
}

func printKeys(w io.Writer, keys []turns.Key) {
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	for _, k := range keys {
		fmt.Fprintf(t, "  %s=%s\t%s\n", k.Name, k.Value, k.Help)
	}
	_ = t.Flush()
}
