// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
)

// maxConfig bounds a file of --config and --save, which has some dozens of lines.
const maxConfig = 1 << 20

// notInFile are the options that a file can't have: they belong to one start, or, as for set, there
// is a section instead.
var notInFile = []string{"config", "fd", "help", "print-capabilities", "set"}

// config is a file of --config while it is read: options by their names, and policies in [set]. The
// command line wins over it.
type config struct {
	flags    *pflag.FlagSet
	settings *settings.Settings
	given    map[string]bool // the policies that the command line has
	meta     toml.MetaData
}

// read applies what a file says.
func (f *config) read(path string) error {
	text, err := readConfig("--config", path)
	if err != nil {
		return err
	}
	var top map[string]toml.Primitive
	if f.meta, err = toml.Decode(text, &top); err == nil {
		err = f.top(top)
	}
	var at toml.ParseError
	if errors.As(err, &at) {
		return cli.Usagef("--config %s, line %d: %s", path, at.Position.Line, at.Message)
	}
	return err
}

// readConfig reads a file that an option names.
func readConfig(option, path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", option, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", option, err)
	case len(text) > maxConfig:
		return "", cli.Usagef("%s %s: more than %d bytes", option, path, maxConfig)
	}
	return string(text), nil
}

func (f *config) top(top map[string]toml.Primitive) error {
	var policies map[string]toml.Primitive
	// The decoder would take anything else for an empty table.
	if table, ok := top["set"]; ok && f.meta.Type("set") == "Hash" {
		if err := f.meta.PrimitiveDecode(table, &policies); err != nil {
			return err
		}
		delete(top, "set")
	}
	if err := f.all(top, f.option); err != nil {
		return err
	}
	return f.all(policies, f.policy)
}

// all takes the entries of a table, by their names.
func (f *config) all(table map[string]toml.Primitive, take func(string, any) error) error {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		e := tomlValue{name, take}
		if err := f.meta.PrimitiveDecode(table[name], &e); err != nil {
			return err
		}
	}
	return nil
}

// tomlValue takes a value. If it refuses one, toml says in which line that is.
type tomlValue struct {
	name string
	take func(name string, value any) error
}

// UnmarshalTOML takes the value.
func (e *tomlValue) UnmarshalTOML(value any) error { return e.take(e.name, value) }

// option sets one of the command's options.
func (f *config) option(name string, value any) error {
	flag := f.flags.Lookup(name)
	if name == "set" {
		return errors.New("set: want a section [set], with lines like weight = 300")
	}
	if flag == nil || slices.Contains(notInFile, name) {
		return fmt.Errorf("%s: no such option; paracuda device --help lists them", name)
	}
	if flag.Changed {
		return nil
	}
	values, err := texts(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, v := range values {
		if err := flag.Value.Set(v); err != nil {
			return fmt.Errorf("%s = %q: %w", name, v, err)
		}
	}
	return nil
}

func (f *config) policy(key string, value any) error {
	if f.given[key] {
		return nil
	}
	values, err := texts(value)
	if err == nil && len(values) != 1 {
		err = errors.New("want one value, not a list")
	}
	if err != nil {
		return fmt.Errorf("set.%s: %w", key, err)
	}
	return f.settings.Set(key + "=" + values[0])
}

// texts is a value as options take it. A list is for options that may be repeated.
func texts(value any) ([]string, error) {
	switch v := value.(type) {
	case string:
		return []string{v}, nil
	case int64:
		return []string{fmt.Sprint(v)}, nil
	case bool:
		return []string{map[bool]string{true: "on", false: "off"}[v]}, nil
	case []any:
		var all []string
		for _, one := range v {
			t, err := texts(one)
			if err != nil || len(t) != 1 {
				return nil, errors.New("want a list of texts")
			}
			all = append(all, t...)
		}
		return all, nil
	}
	return nil, errors.New("want a text, a number, true or false")
}

// configOption adds --config to device.
func (o *deviceOptions) configOption(c *cobra.Command) {
	c.Flags().StringVar(&o.config, "config", "",
		"read options from `FILE` too, as TOML: NAME = VALUE, and policies in [set]; the command "+
			"line has precedence")
}
