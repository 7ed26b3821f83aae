// SPDX-License-Identifier: Apache-2.0

// Package policyfile changes policies in the file of a VM's options, where they are the section
// [set]. Everything else in the file stays as its owner wrote it, comments too: lines are changed
// and added, and a TOML decoder checks that the result says what was meant. A file whose layout
// isn't known here is refused, and stays as it is.
package policyfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/BurntSushi/toml"
)

// Setting is a policy and its value.
type Setting struct{ Key, Value string }

var (
	header   = regexp.MustCompile(`^\s*\[\s*set\s*\]\s*(#.*)?$`)
	anyTable = regexp.MustCompile(`^\s*\[`)
	// entry has a key, what is between key and value, the value, and what comes after it.
	entry = regexp.MustCompile(`^(\s*)([A-Za-z0-9_-]+)(\s*=\s*)` +
		`("[^"]*"|'[^']*'|[^\s#"'\[{]+)(\s*(#.*)?)$`)
	number  = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})$`)
	plain   = regexp.MustCompile(`^[ -~]+$`)
	bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

// Change returns the text of a file with these settings in its table [set].
func Change(text string, all []Setting) (string, error) {
	want, err := decode(text)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if text == "" {
		lines = nil
	}
	table, ok := want["set"].(map[string]any)
	if !ok {
		if want["set"] != nil {
			return "", errors.New("set isn't a section [set]")
		}
		table = map[string]any{}
		want["set"] = table
	}
	for _, s := range all {
		value, err := literal(s)
		if err != nil {
			return "", err
		}
		lines = change(lines, s.Key, value)
		table[s.Key] = meant(s.Value)
	}
	result := strings.Join(lines, "\n") + "\n"
	got, err := decode(result)
	if err != nil || !reflect.DeepEqual(got, want) {
		return "", errors.New("its layout is too uncommon to be changed: edit it by hand")
	}
	return result, nil
}

func decode(text string) (map[string]any, error) {
	all := map[string]any{}
	_, err := toml.Decode(text, &all)
	var at toml.ParseError
	if errors.As(err, &at) {
		return nil, fmt.Errorf("line %d: %s", at.Position.Line, at.Message)
	}
	return all, err
}

// meant is what a decoder has to find.
func meant(value string) any {
	if !number.MatchString(value) {
		return value
	}
	n, _ := strconv.ParseInt(value, 10, 64) // whose digits fit
	return n
}

// literal is a value as TOML has it.
func literal(s Setting) (string, error) {
	switch {
	case !bareKey.MatchString(s.Key):
		return "", fmt.Errorf("%q: no key", s.Key)
	case number.MatchString(s.Value):
		return s.Value, nil
	case !plain.MatchString(s.Value) || strings.ContainsAny(s.Value, `"\`):
		return "", fmt.Errorf("%s: %q can't be written to the file", s.Key, s.Value)
	}
	return `"` + s.Value + `"`, nil
}

// change gives a key of the table a value, in place or after what the table has.
func change(lines []string, key, value string) []string {
	begin := slices.IndexFunc(lines, header.MatchString)
	if begin < 0 {
		if len(lines) > 0 {
			lines = append(lines, "")
		}
		return append(lines, "[set]", key+" = "+value)
	}
	last := begin // of the lines that have something
	for i := begin + 1; i < len(lines) && !anyTable.MatchString(lines[i]); i++ {
		m := entry.FindStringSubmatch(strings.TrimSuffix(lines[i], "\r"))
		if m != nil && m[2] == key {
			lines[i] = m[1] + key + m[3] + value + m[5]
			return lines
		}
		if text := strings.TrimSpace(lines[i]); text != "" && text[0] != '#' {
			last = i
		}
	}
	return slices.Insert(lines, last+1, key+" = "+value)
}

// Write replaces a file's text atomically: a reader finds the old or the new one, after a crash
// too. Owner and mode stay.
func Write(path, text string) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // which is gone if all went well
	defer f.Close()
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
			return fmt.Errorf("keep the owner: %w", err)
		}
	}
	if err := f.Chmod(info.Mode().Perm()); err != nil {
		return fmt.Errorf("keep the mode: %w", err)
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write to the disk: %w", err)
	}
	return os.Rename(f.Name(), path)
}
