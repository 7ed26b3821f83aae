// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// program is one line of programs/programs.txt: a run of a program, and how it must end.
type program struct {
	file   string // its name in the folder of built programs
	args   []string
	exit   int
	flags  []string
	stdout string         // from want/; empty if it holds on one GPU only
	stderr *regexp.Regexp // all of standard error; nil if there must be none
}

// id names the run.
func (p program) id() string { return strings.Join(append([]string{p.file}, p.args...), "-") }

func (p program) has(flag string) bool { return slices.Contains(p.flags, flag) }

func parseProgram(line string) (program, error) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return program{}, fmt.Errorf("programs.txt: %q has fewer than three columns", line)
	}
	exit, err := strconv.Atoi(fields[1])
	if err != nil {
		return program{}, fmt.Errorf("programs.txt: %q: exit code: %w", line, err)
	}
	p := program{file: fields[0], exit: exit, args: fields[3:]}
	if fields[2] != "-" {
		p.flags = strings.Split(fields[2], ",")
	}
	if p.has("shared") {
		p.file += "-shared"
	}
	if p.has("ptds") {
		p.file += "-ptds"
	}
	return p, nil
}

// expect reads what the run must print.
func (p *program) expect(dir string) error {
	if p.has("bits") {
		return nil
	}
	out, err := os.ReadFile(filepath.Join(dir, p.id()+".out"))
	if err != nil {
		return err
	}
	p.stdout = string(out)
	pattern, err := os.ReadFile(filepath.Join(dir, p.id()+".err"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	p.stderr, err = regexp.Compile(strings.TrimSpace(string(pattern)))
	return err
}

// readPrograms reads the list and what its programs must print.
func readPrograms(t testing.TB) []program {
	t.Helper()
	text, err := os.ReadFile("programs/programs.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []program
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		p, err := parseProgram(line)
		if err == nil {
			err = p.expect("programs/want")
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestListIsComplete(t *testing.T) {
	programs := readPrograms(t)
	used := map[string]bool{}
	for _, p := range programs {
		if used[p.id()] {
			t.Errorf("%s is listed twice", p.id())
		}
		used[p.id()] = true
		used[p.file] = true
	}
	sources, _ := filepath.Glob("programs/*.cu")
	if len(sources) < 30 {
		t.Errorf("found %d programs, want at least 30", len(sources))
	}
	for _, file := range sources {
		if name := strings.TrimSuffix(filepath.Base(file), ".cu"); !used[name] {
			t.Errorf("%s is in no line of programs.txt", file)
		}
	}
	wants, _ := filepath.Glob("programs/want/*")
	for _, file := range wants {
		if id := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)); !used[id] {
			t.Errorf("%s belongs to no line of programs.txt", file)
		}
	}
}
