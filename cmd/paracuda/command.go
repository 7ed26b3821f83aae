// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commands make the commands, by their names.
func commands() map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"run": runCommand, "device": deviceCommand, "arbiter": arbiterCommand,
		"attach": attachCommand, "detach": detachCommand, "set": setCommand,
		"suspend": suspendCommand, "resume": resumeCommand,
		"stats": statsCommand, "top": topCommand, "ps": psCommand, "probe": probeCommand,
		"version": versionCommand, "completion": completionCommand, "doctor": doctorCommand,
		// Started by paracuda itself.
		"worker": workerCommand, "mover": moverCommand, "usage": usageCommand,
		"starter": starterCommand, "init": initCommand, "compute": computeCommand,
		// For the build of packages.
		"man": manCommand,
	}
}

// rootCommand makes the program with one command, or, where there is none of that name, with all:
// a worker starts with a guest's program, which waits for it.
func rootCommand(only string) *cobra.Command {
	root := &cobra.Command{
		Use:   "paracuda COMMAND",
		Short: "give virtual machines a paravirtual CUDA GPU",
		Long:  "paracuda gives virtual machines a paravirtual CUDA GPU.",
		Args:  cobra.ArbitraryArgs, // those that are no command
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			printHelp(os.Stderr, c)
			return exitCode(2)
		},
		SilenceErrors: true, SilenceUsage: true, DisableFlagsInUseLine: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetOut(stdout)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { printHelp(stdout, c) })
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	all := commands()
	if one := all[only]; one != nil {
		root.AddCommand(one())
		return root
	}
	for _, one := range all {
		root.AddCommand(one())
	}
	return root
}

// dispatch carries out a command line.
func dispatch(args []string) error {
	name := ""
	if len(args) > 0 {
		if args[0] == "device" && asksForCapabilities(args[1:]) {
			return printCapabilities(stdout)
		}
		if args[0] == "--version" {
			args = append([]string{"version"}, args[1:]...)
		}
		name = args[0]
	}
	root := rootCommand(name)
	root.SetArgs(append([]string{}, args...)) // nil would be this process's own
	return root.Execute()
}

func unknownCommand(root *cobra.Command, name string) error {
	if like := root.SuggestionsFor(name); len(like) > 0 {
		return usagef("unknown command %q, like %s: see paracuda --help", name,
			strings.Join(like, " and "))
	}
	return usagef("unknown command %q: see paracuda --help", name)
}

// takesNothing refuses what is left over when the options are read.
func takesNothing(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if c.Flags().Lookup("set") != nil && strings.Contains(args[0], "=") {
		hint = " (each --set takes one KEY=VALUE)"
	}
	return usagef("%s: unexpected argument %q%s", c.Name(), args[0], hint)
}

// takesSocket wants the socket of a device, and nothing more.
func takesSocket(c *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usagef("%s: want SOCKET", c.Name())
	case 1:
		return checkSocket(c.Name(), args[0])
	}
	return usagef("%s: unexpected argument %q: want one SOCKET", c.Name(), args[1])
}

// flagError is one line about an option: the help is for those who ask for it.
func flagError(c *cobra.Command, err error) error {
	of := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "paracuda"), " ")
	hint, unknown := "", (*pflag.NotExistError)(nil)
	if errors.As(err, &unknown) {
		if name := unknown.GetSpecifiedShortnames(); c.Flags().Lookup(name) != nil {
			hint = ": want --" + name
		}
	}
	if of == "" {
		return usagef("%w%s: see paracuda --help", err, hint)
	}
	return usagef("%s: %w%s: see paracuda %[1]s --help", of, err, hint)
}

// complete has a shell offer values for an option.
func complete(c *cobra.Command, option string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(option, f); err != nil {
		panic(fmt.Sprintf("%s --%s: %v", c.Name(), option, err)) // there is no such option
	}
}

// words are the values that an option may have.
func words(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}
