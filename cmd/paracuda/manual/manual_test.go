// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestText: text that looks like a request to roff is escaped, and indented lines aren't joined.
func TestText(t *testing.T) {
	var b strings.Builder
	page{&b}.text("one two\n  -a \\\n.b\n.c 'd\n")
	want := "one two\n.PP\n.nf\n  \\-a \\e\n\\&.b\n.fi\n.PP\n\\&.c \\&'d\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

var errUnknown = errors.New("no such command")

// program has one command, with an option and a list.
func program() (*Book, *cobra.Command) {
	book := &Book{
		Version: "9.8",
		Lists: func(c *cobra.Command) []List {
			if c.Name() != "fly" {
				return nil
			}
			return []List{{"THINGS", "What flies", []Item{{"bird", "N", "with wings"},
				{"stone", "", "if it is thrown"}}}}
		},
		Unknown: func(*cobra.Command, string) error { return errUnknown },
	}
	root := &cobra.Command{Use: "program COMMAND", Short: "do it", Long: "program does it.",
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}}
	fly := &cobra.Command{Use: "fly", Short: "leave the ground", Long: "Leaves the ground.",
		Run: func(*cobra.Command, []string) {}}
	fly.Flags().String("high", "10m", "not above `HEIGHT`")
	root.AddCommand(fly, book.Command())
	root.SetHelpCommand(book.HelpCommand())
	book.Root = func() *cobra.Command { return root }
	return book, root
}

// TestHelp: a command's help has all of the command, the program's all commands but hidden ones.
func TestHelp(t *testing.T) {
	book, root := program()
	var b strings.Builder
	book.Help(&b, root.Commands()[0])
	for _, want := range []string{"Usage: program fly", "--high HEIGHT", `(default "10m")`,
		"\nWhat flies:\n  bird=N  with wings\n  stone   if it is thrown\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	book.Help(&b, root)
	if !strings.Contains(b.String(), "  fly ") || strings.Contains(b.String(), "  man ") {
		t.Errorf("%s", b.String())
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs([]string{"help", "crawl"})
	if err := root.Execute(); !errors.Is(err, errUnknown) {
		t.Error(err)
	}
}

// TestLongEntries: no line is wider than a terminal, and an entry's meaning stays in its column.
func TestLongEntries(t *testing.T) {
	var b strings.Builder
	l := List{Items: []Item{{"a", "", strings.Repeat("word ", 30)}, {"key", "N", "short"}}}
	l.print(&b)
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 4 || len(lines[0]) > helpWidth || len(lines[0]) < helpWidth-5 ||
		!strings.HasPrefix(lines[1], "         word") || lines[2] != "  key=N  short" {
		t.Errorf("%q", lines)
	}
}

// TestPages: the program has a page, and so has each command that users see.
func TestPages(t *testing.T) {
	_, root := program()
	dir := t.TempDir()
	root.SetArgs([]string{"man", "--date", "2026-01-02", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "program-fly.1"))
	for _, want := range []string{`.TH PROGRAM-FLY 1 2026-01-02 "Paracuda 9.8"`,
		".SH THINGS\nWhat flies:\n.TP\n\\fBbird=\\fP\\fIN\\fP\nwith wings\n",
		"\\fBstone\\fP\\fI\\fP\nif it is thrown\n", "(default 10m)"} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: no %q in\n%s", err, want, text)
		}
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs([]string{"man"})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "want one DIR") {
		t.Error(err)
	}
}
