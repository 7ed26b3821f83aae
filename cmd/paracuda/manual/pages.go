// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
)

// Command writes the manual pages from what --help says, in the format of man(7). It is for the
// build of packages. cobra's own generator writes pages of which mandoc complains.
func (b *Book) Command() *cobra.Command {
	date := ""
	c := &cobra.Command{
		Use:    "man DIR",
		Long:   "Writes the manual pages into DIR.",
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("man: want one DIR")
			}
			return b.write(b.Root(), args[0], date)
		},
	}
	c.Flags().StringVar(&date, "date", time.Now().UTC().Format(time.DateOnly),
		"the pages' date, `YYYY-MM-DD`")
	return c
}

// write writes a page for the program, and one for each command.
func (b *Book) write(root *cobra.Command, dir, date string) error {
	pages := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			c.InitDefaultHelpFlag()
			pages = append(pages, c)
		}
	}
	for _, c := range pages {
		var text strings.Builder
		page{&text}.write(c, b, date)
		file := filepath.Join(dir, Name(c)+".1")
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			return fmt.Errorf("write the manual: %w", err)
		}
	}
	return nil
}

// Name is what a command's page is called.
func Name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page writes a page.
type page struct{ w io.Writer }

func (m page) write(c *cobra.Command, b *Book, date string) {
	fmt.Fprintf(m.w, ".TH %s 1 %s \"Paracuda %s\"\n", strings.ToUpper(Name(c)), date, b.Version)
	fmt.Fprintf(m.w, ".SH NAME\n%s \\- %s\n", escape(Name(c)), escape(c.Short))
	fmt.Fprintf(m.w, ".SH SYNOPSIS\n.B %s\n", escape(c.UseLine()))
	fmt.Fprint(m.w, ".SH DESCRIPTION\n")
	m.text(c.Long)
	if !c.HasParent() {
		m.commands(c)
	} else {
		m.options(c.Flags())
	}
	for _, l := range b.Lists(c) {
		m.list(l)
	}
	fmt.Fprint(m.w, ".SH EXIT STATUS\n")
	m.text(exitText(c))
	m.seeAlso(c)
}

func exitText(c *cobra.Command) string {
	text := "0: done. 1: it could not be done, and a line on standard error says why. " +
		"2: a mistake in the command line."
	if c.Name() == "run" {
		text += " Otherwise the program's: 128 + N for signal N, 127 if there is no such " +
			"program, 126 if it can't be executed."
	}
	return text
}

func (m page) commands(root *cobra.Command) {
	fmt.Fprint(m.w, ".SH COMMANDS\n")
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			m.item(c.Name(), "", c.Short)
		}
	}
}

func (m page) options(flags *pflag.FlagSet) {
	fmt.Fprint(m.w, ".SH OPTIONS\n")
	flags.VisitAll(func(f *pflag.Flag) {
		value, help := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if shown := f.DefValue; shown != "" && shown != "false" && shown != "0" {
			help += " (default " + shown + ")"
		}
		m.item(name, value, help)
	})
}

func (m page) list(l List) {
	fmt.Fprintf(m.w, ".SH %s\n", l.Heading)
	m.text(l.Title + ":")
	for _, i := range l.Items {
		name := i.Name
		if i.Value != "" {
			name += "="
		}
		m.item(name, i.Value, i.Help)
	}
}

func (m page) seeAlso(c *cobra.Command) {
	fmt.Fprint(m.w, ".SH SEE ALSO\n")
	if c.HasParent() {
		fmt.Fprint(m.w, ".BR paracuda (1)\n")
		return
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(m.w, ".BR %s (1)\n", escape(Name(sub)))
		}
	}
}

// item is an entry of a list: a name, what it takes, and what it means.
func (m page) item(name, value, text string) {
	if value != "" && !strings.HasSuffix(name, "=") {
		name += " "
	}
	fmt.Fprintf(m.w, ".TP\n\\fB%s\\fP\\fI%s\\fP\n", escape(name), escape(value))
	m.text(text)
}

// text is prose. Lines that begin with two spaces, or go on with such a line after a backslash,
// stay as they are.
func (m page) text(text string) {
	asIs, goesOn := false, false
	var words []string
	flush := func() {
		fmt.Fprint(m.w, filled(words))
		words = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if verbatim := strings.HasPrefix(line, "  ") || goesOn; verbatim != asIs {
			flush()
			fmt.Fprint(m.w, map[bool]string{true: ".PP\n.nf\n", false: ".fi\n.PP\n"}[verbatim])
			asIs = verbatim
		}
		goesOn = asIs && strings.HasSuffix(line, `\`)
		if asIs {
			fmt.Fprintln(m.w, escape(line))
		} else {
			words = append(words, strings.Fields(line)...)
		}
	}
	flush()
	if asIs {
		fmt.Fprint(m.w, ".fi\n")
	}
}

// manWidth is how long lines of prose are in the pages' source.
const manWidth = 72

// filled joins words to lines.
func filled(words []string) string {
	var b strings.Builder
	column := 0
	for _, word := range words {
		word = escape(word)
		switch {
		case column == 0:
		case column+1+len(word) > manWidth:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	if column > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

// escape makes roff print a text as it is.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
