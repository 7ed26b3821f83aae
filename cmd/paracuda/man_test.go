// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/paracuda/paracuda/cmd/paracuda/manual"
)

// manualPages are the files that paracuda man writes.
func manualPages(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	if code, _, said := ranBy(t, "man", "--date", "2026-01-02", dir); code != 0 {
		t.Fatalf("exit code %d, %q", code, said)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestManual: each command that users see has a page with all its options and keys.
func TestManual(t *testing.T) {
	pages := map[string]string{}
	for _, file := range manualPages(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages[strings.TrimSuffix(filepath.Base(file), ".1")] = string(text)
	}
	root := rootCommand("")
	for _, c := range root.Commands() {
		page, there := pages[manual.Name(c)]
		if there == c.Hidden {
			t.Errorf("%s: page %t, hidden %t", c.Name(), there, c.Hidden)
		}
		if c.Hidden {
			continue
		}
		if !strings.Contains(pages["paracuda"], `\fB`+c.Name()+`\fP`) {
			t.Errorf("paracuda.1 doesn't name %s", c.Name())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(page, dashes("--"+f.Name)) {
				t.Errorf("%s.1 lacks --%s", manual.Name(c), f.Name)
			}
		})
		for _, l := range lists(c) {
			for _, i := range l.Items {
				if !strings.Contains(page, `\fB`+dashes(i.Name)) {
					t.Errorf("%s.1 lacks %s", manual.Name(c), i.Name)
				}
			}
		}
	}
}

// dashes is a name as pages have it: to roff a plain - is a hyphen.
func dashes(name string) string { return strings.ReplaceAll(name, "-", `\-`) }

// TestManualIsWellFormed has mandoc read the pages.
func TestManualIsWellFormed(t *testing.T) {
	if _, err := exec.LookPath("mandoc"); err != nil {
		t.Skip("no mandoc here: run scripts/apt-deps")
	}
	args := append([]string{"-T", "lint"}, manualPages(t)...)
	if out, err := exec.Command("mandoc", args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
