// SPDX-License-Identifier: Apache-2.0

// Package manual explains commands, in --help and in manual pages. Both come from the same texts:
// those of the cobra.Command, its options, and the lists that belong to it, such as keys or
// counters.
//
// A Book is made by the owner of the commands, which it only reads. All texts are the program's
// own.
package manual

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// helpWidth is how long the lines of options are.
const helpWidth = 100

// Item is an entry of a list: what it is called, what value it takes if any, and what it means.
type Item struct{ Name, Value, Help string }

// List is what a command knows by name besides options.
type List struct {
	Heading string // in a page, in capital letters
	Title   string // a line, or several, without a colon
	Items   []Item
}

// Book explains the commands of a program.
type Book struct {
	Version string
	// Root makes the program with all its commands.
	Root func() *cobra.Command
	// Lists are those of a command.
	Lists func(c *cobra.Command) []List
	// Unknown is the error of an unknown command.
	Unknown func(root *cobra.Command, name string) error
}

// HelpCommand is `help COMMAND`.
func (b *Book) HelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "explain a command",
		Long:  "Explains a command: as paracuda COMMAND --help.",
		ValidArgsFunction: func(c *cobra.Command, _ []string, _ string) ([]string,
			cobra.ShellCompDirective) {
			return names(c.Root()), cobra.ShellCompDirectiveNoFileComp
		},
		DisableFlagsInUseLine: true,
		RunE: func(help *cobra.Command, args []string) error {
			root := help.Root()
			if len(args) == 0 {
				return root.Help()
			}
			c, _, err := root.Find(args[:1])
			if err != nil || c == root {
				return b.Unknown(root, args[0])
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// names are those of the commands that users see.
func names(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name()+"\t"+c.Short)
		}
	}
	return names
}

// Help explains a command.
func (b *Book) Help(w io.Writer, c *cobra.Command) {
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
	for _, l := range b.Lists(c) {
		fmt.Fprintf(w, "\n%s:\n", l.Title)
		l.print(w)
	}
}

// print prints entries in two columns.
func (l *List) print(w io.Writer) {
	wide := 0
	for _, i := range l.Items {
		wide = max(wide, len(i.term()))
	}
	for _, i := range l.Items {
		fmt.Fprintf(w, "  %-*s", wide, i.term())
		column := wide + 2
		for n, word := range strings.Fields(i.Help) {
			switch {
			case n == 0:
				word = "  " + word
			case column+1+len(word) > helpWidth:
				fmt.Fprintf(w, "\n%*s", wide+4, "")
				column = wide + 4
			default:
				word = " " + word
			}
			fmt.Fprint(w, word)
			column += len(word)
		}
		fmt.Fprintln(w)
	}
}

// term is an entry's name, with the value that it takes.
func (i Item) term() string {
	if i.Value == "" {
		return i.Name
	}
	return i.Name + "=" + i.Value
}
