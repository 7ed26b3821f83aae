// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/paracuda/paracuda/gpubackend/turns"
)

// MaxName is how long the name of a VM may be.
const MaxName = 64

// maxFile bounds a configuration file: a thousand VMs with all keys take a fraction of it.
const maxFile = 1 << 20

// Table is what a configuration file says.
type Table struct {
	// Default is the policy of VMs that aren't named: they may not ask for another one. nil: they
	// may.
	Default *Policy
	VMs     map[string]Policy
}

// Of is the policy of a VM, if the table has one.
func (t *Table) Of(name string) (p Policy, ok bool) {
	if p, ok = t.VMs[name]; !ok && t.Default != nil {
		return *t.Default, true
	}
	return p, ok
}

// CheckName says what is wrong with the name of a VM.
func CheckName(name string) error {
	ok := name != "" && len(name) <= MaxName
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("._-", r))
	}
	if !ok {
		return fmt.Errorf("VM name %.70q: want 1 to %d of a-z, A-Z, 0-9, '.', '_' and '-'",
			name, MaxName)
	}
	return nil
}

// ReadFile reads a configuration file. An error names the file, and the line that is wrong.
func ReadFile(path string) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the arbiter's configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the arbiter's configuration: %w", err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("%s: more than %d bytes", path, maxFile)
	}
	t, line, err := parse(text)
	switch {
	case err != nil && line > 0:
		return nil, fmt.Errorf("%s, line %d: %w", path, line, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// tables are a part of a file, by key, before it is read.
type tables map[string]toml.Primitive

// parse reads a file's text. The line of an error is 0 if it has none.
func parse(text []byte) (t *Table, line int, err error) {
	f := file{table: &Table{VMs: map[string]Policy{}}}
	var top tables
	if f.meta, err = toml.Decode(string(text), &top); err == nil {
		err = f.top(top)
	}
	if err != nil {
		line, err := place(err)
		return nil, line, err
	}
	return f.table, 0, nil
}

// file is a file that is being read.
type file struct {
	meta  toml.MetaData
	table *Table
}

// top reads the sections.
func (f *file) top(sections tables) error {
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		var err error
		switch name {
		case "default":
			f.table.Default = &Policy{}
			*f.table.Default, err = f.section(sections[name])
		case "vm":
			err = f.vms(sections[name])
		default:
			err = f.refuse(sections[name], errors.New("want sections [default] and [vm.NAME]"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// vms reads the sections of VMs.
func (f *file) vms(p toml.Primitive) error {
	sections, err := f.open(p)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		if err := CheckName(name); err != nil {
			return f.refuse(sections[name], err)
		}
		var err error
		if f.table.VMs[name], err = f.section(sections[name]); err != nil {
			return err
		}
	}
	return nil
}

// section reads the policy of a VM.
func (f *file) section(p toml.Primitive) (policy Policy, err error) {
	settings, err := f.open(p)
	if err != nil {
		return policy, err
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		err := f.meta.PrimitiveDecode(settings[key], &setting{&policy, key})
		if err != nil {
			return policy, err
		}
	}
	if err := policy.Check(); err != nil {
		return policy, f.refuse(p, err)
	}
	return policy, nil
}

// open reads what a table holds.
func (f *file) open(p toml.Primitive) (t tables, err error) {
	if err := f.meta.PrimitiveDecode(p, &mustBeTable{}); err != nil {
		return nil, err
	}
	return t, f.meta.PrimitiveDecode(p, &t)
}

// refuse returns an error with the place of what is wrong.
func (f *file) refuse(p toml.Primitive, err error) error {
	return f.meta.PrimitiveDecode(p, &refusal{err})
}

// setting is a place for the value of a key.
type setting struct {
	policy *Policy
	key    string
}

// UnmarshalTOML sets the value.
func (s *setting) UnmarshalTOML(value any) error {
	switch value.(type) {
	case string, int64:
		return s.policy.set(s.key, fmt.Sprint(value))
	}
	if !slices.ContainsFunc(Keys, func(k turns.Setting) bool { return k.Name == s.key }) {
		return fmt.Errorf("%.40q: %w", s.key, ErrKey)
	}
	return fmt.Errorf("%s: want a number or a string", s.key)
}

// mustBeTable is a place for a table. Without it, the decoder would take any value for an empty
// table.
type mustBeTable struct{}

// UnmarshalTOML refuses what isn't a table.
func (mustBeTable) UnmarshalTOML(value any) error {
	if _, ok := value.(map[string]any); !ok {
		return errors.New("want a section")
	}
	return nil
}

// refusal is a place that accepts no value.
type refusal struct{ err error }

// UnmarshalTOML refuses.
func (r *refusal) UnmarshalTOML(any) error { return r.err }

// place is the line of an error, and what it says.
func place(err error) (line int, text error) {
	var wrong toml.ParseError
	if errors.As(err, &wrong) {
		return wrong.Position.Line, fmt.Errorf("%s%s", inside(wrong.LastKey), wrong.Message)
	}
	return 0, errors.New(strings.TrimPrefix(err.Error(), "toml: "))
}

// inside says where the last key that was read is.
func inside(key string) string {
	if key == "" {
		return ""
	}
	return "at " + key + ": "
}
