// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paracuda/paracuda/cmd/paracuda/children"
	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/manual"
	"github.com/paracuda/paracuda/cmd/paracuda/plug"
	"github.com/paracuda/paracuda/cmd/paracuda/precopy"
	"github.com/paracuda/paracuda/cmd/paracuda/show"
	"github.com/paracuda/paracuda/cmd/paracuda/suspension"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// commands make the commands, by their names.
func commands() map[string]func() *cobra.Command {
	all := map[string]func() *cobra.Command{
		"run": runCommand, "device": deviceCommand, "arbiter": arbiterCommand,
		"attach": plug.Attach, "detach": plug.Detach, "set": setCommand,
		"suspend": suspension.Suspend, "resume": suspension.Resume, "precopy": precopy.Command,
		"stats": show.Stats, "top": show.Top, "ps": show.Ps, "probe": probeCommand,
		"version": versionCommand, "completion": completionCommand, "doctor": doctorCommand,
		// Started by paracuda itself.
		"compute": computeCommand,
		// For the build of packages.
		"man": book().Command,
	}
	maps.Copy(all, children.Commands(version))
	return all
}

// book explains the commands.
func book() *manual.Book {
	return &manual.Book{
		Version: version, Root: func() *cobra.Command { return rootCommand("") }, Lists: lists,
		Unknown: unknownCommand,
	}
}

// lists are what commands know by name besides options, such as keys and counters.
func lists(c *cobra.Command) []manual.List {
	switch c.Name() {
	case "device":
		return []manual.List{{Heading: "KEYS", Title: "Keys for --set",
			Items: keys(settings.Keys())}}
	case "arbiter":
		return []manual.List{{Heading: "KEYS", Title: "The file of --config is TOML: [default] " +
			"for VMs that it doesn't name, [vm.NAME] for\nothers, with the keys",
			Items: keys(policy.Keys)}}
	}
	return show.Lists(c.Name())
}

func keys(all []turns.Setting) (items []manual.Item) {
	for _, k := range all {
		items = append(items, manual.Item(k))
	}
	return items
}

// rootCommand makes the program with one command, or with all if there is none of that name. One
// alone is quicker: a guest's program waits for its worker to start.
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
			book().Help(os.Stderr, c)
			return cli.ExitCode(2)
		},
		SilenceErrors: true, SilenceUsage: true, DisableFlagsInUseLine: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetOut(cli.Stdout)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { book().Help(cli.Stdout, c) })
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(book().HelpCommand())
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

// dispatch executes a command line.
func dispatch(args []string) error {
	name := ""
	if len(args) > 0 {
		if args[0] == "device" && asksForCapabilities(args[1:]) {
			return printCapabilities(cli.Stdout)
		}
		if args[0] == "--version" {
			args = append([]string{"version"}, args[1:]...)
		}
		name = args[0]
	}
	if name != "device" && name != "arbiter" { // these may begin anew
		runtime.UnlockOSThread()
	}
	root := rootCommand(name)
	root.SetArgs(append([]string{}, args...)) // nil would be this process's own
	return root.Execute()
}

func unknownCommand(root *cobra.Command, name string) error {
	if like := root.SuggestionsFor(name); len(like) > 0 {
		return cli.Usagef("unknown command %q, like %s: see paracuda --help", name,
			strings.Join(like, " and "))
	}
	return cli.Usagef("unknown command %q: see paracuda --help", name)
}

// flagError is one line about an option: the help is for those who ask for it.
func flagError(c *cobra.Command, err error) error {
	of := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "paracuda"), " ")
	hint, unknown, invalid := "", (*pflag.NotExistError)(nil), (*pflag.InvalidValueError)(nil)
	if errors.As(err, &invalid) {
		err = invalidValue(invalid)
	}
	if errors.As(err, &unknown) {
		if name := unknown.GetSpecifiedShortnames(); c.Flags().Lookup(name) != nil {
			hint = ": want --" + name
		}
	}
	if of == "" {
		return cli.Usagef("%w%s: see paracuda --help", err, hint)
	}
	return cli.Usagef("%s: %w%s: see paracuda %[1]s --help", of, err, hint)
}

// invalidValue is the error of an option's value, which it names once.
func invalidValue(e *pflag.InvalidValueError) error {
	option, cause := "--"+e.GetFlag().Name, e.Unwrap()
	want := map[string]string{
		"bool": "true or false", "int": "a number", "duration": "a time like 30s",
	}[e.GetFlag().Value.Type()]
	switch {
	case want != "":
		return fmt.Errorf("%s %s: want %s", option, e.GetValue(), want)
	case strings.Contains(cause.Error(), e.GetValue()):
		return fmt.Errorf("%s: %w", option, cause)
	}
	return fmt.Errorf("%s %s: %w", option, e.GetValue(), cause)
}
