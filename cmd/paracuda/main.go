// SPDX-License-Identifier: Apache-2.0

// Command paracuda gives virtual machines a paravirtual CUDA GPU.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

// version is that of the program, set when a release is built.
var version = "0.1.0"

// command is a subcommand.
type command struct {
	name, synopsis string
	hidden         bool // started by paracuda itself
	run            func(args []string) error
}

var commands []command

func init() {
	commands = []command{
		{name: "run", synopsis: "run a program in a throw-away VM with the GPU attached",
			run: runRun},
		{name: "device", synopsis: "serve the GPU to one VM over a vhost-user socket",
			run: runDevice},
		{name: "arbiter", synopsis: "share the host's GPUs among its VMs", run: runArbiter},
		{name: "attach", synopsis: "plug a served GPU into a running QEMU", run: runAttach},
		{name: "detach", synopsis: "take it out again", run: runDetach},
		{name: "set", synopsis: "change policies of a running VM", run: runSet},
		{name: "stats", synopsis: "print the counters of a running VM", run: runStats},
		{name: "top", synopsis: "show what VMs have of the GPUs", run: runTop},
		{name: "probe", synopsis: "say which GPUs the host has for guests", run: runProbe},
		{name: "version", synopsis: "print the version", run: runVersion},
		{name: "worker", hidden: true, run: runWorker},
		{name: "mover", hidden: true, run: runMover},
		{name: "usage", hidden: true, run: runUsage},
	}
}

// exitCode makes main exit with a code and say nothing: what there is to say has been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func main() {
	err := dispatch(os.Args[1:])
	if failed := stdout.failed(); failed != nil {
		err = fmt.Errorf("standard output: %w", failed)
	}
	var code exitCode
	switch {
	case err == nil:
	case errors.As(err, &code):
		os.Exit(int(code))
	case errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "paracuda:", err)
		os.Exit(1)
	}
}

func dispatch(args []string) error {
	if len(args) == 0 {
		usage(os.Stderr)
		return exitCode(2)
	}
	switch args[0] {
	case "help":
		if len(args) > 1 {
			return dispatch([]string{args[1], "--help"})
		}
		fallthrough
	case "-h", "--help":
		usage(stdout)
		return nil
	case "--version":
		args[0] = "version"
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(args[1:])
		}
	}
	return fmt.Errorf("unknown command %q: see paracuda --help", args[0])
}

func usage(w io.Writer) {
	fmt.Fprint(w,
		"paracuda gives virtual machines a paravirtual CUDA GPU.\n\nCommands (each has --help):\n")
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	for _, c := range commands {
		if !c.hidden {
			fmt.Fprintf(t, "  %s\t%s\n", c.name, c.synopsis)
		}
	}
	_ = t.Flush()
}

func runVersion(args []string) error {
	if err := parse(newFlags("version", "", "Prints the version."), args); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "paracuda", version)
	return nil
}

// newFlags makes the flags of a subcommand, with a synopsis for --help.
func newFlags(name, arguments, text string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {
		f.SetOutput(stdout)
		fmt.Fprintf(stdout, "Usage: paracuda %s\n\n%s\n", strings.TrimSpace(name+" "+arguments),
			text)
		options := 0
		if f.VisitAll(func(*flag.Flag) { options++ }); options > 0 {
			fmt.Fprintln(stdout, "\nOptions:")
			f.PrintDefaults()
		}
		f.SetOutput(io.Discard)
	}
	return f
}

// parse reads the flags of a command that takes nothing else. What is left over is refused: the
// flags behind it would be ignored.
func parse(f *flag.FlagSet, args []string) error {
	if err := parseFlags(f, args); err != nil || f.NArg() == 0 {
		return err
	}
	hint := ""
	if f.Lookup("set") != nil && strings.Contains(f.Arg(0), "=") {
		hint = " (each --set takes one KEY=VALUE)"
	}
	return fmt.Errorf("%s: unexpected argument %q%s", f.Name(), f.Arg(0), hint)
}

// parseFlags reads the flags that stand before other arguments. The usage is for those who ask for
// it: an error is one line.
func parseFlags(f *flag.FlagSet, args []string) error {
	usage := f.Usage
	f.Usage = func() {}
	err := f.Parse(args)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, flag.ErrHelp):
		usage()
		return err
	}
	return fmt.Errorf("%s: %w: see paracuda %[1]s --help", f.Name(), err)
}
