// SPDX-License-Identifier: Apache-2.0

// Package cgroup puts this process, and so all that it starts, into a control group of its own
// (cgroups(7), version 2), with bounds on what they may take of the host together. The operator
// names the group and the bounds; nothing here comes from a guest.
package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/size"
)

// Bounds are the files of a group that set bounds, and what is written to them.
type Bounds map[string]string

// kinds say what the files take.
var kinds = map[string]func(string) (string, error){
	"memory.max": memory, "pids.max": processes, "cpu.weight": weight, "io.weight": weight,
}

// Names lists what can be bounded.
func Names() []string {
	return slices.Sorted(maps.Keys(kinds))
}

// Set adds a bound, as NAME=VALUE.
func (b Bounds) Set(text string) error {
	name, value, is := strings.Cut(text, "=")
	parse := kinds[name]
	if !is || parse == nil {
		return fmt.Errorf("want NAME=VALUE with a name of %s, not %q",
			strings.Join(Names(), ", "), text)
	}
	value, err := parse(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b[name] = value
	return nil
}

const noBound = "max"

func memory(text string) (string, error) {
	if text == noBound {
		return text, nil
	}
	bytes, err := size.Parse(text)
	if err == nil && bytes == 0 {
		err = errors.New("want more than 0 bytes")
	}
	return strconv.FormatUint(bytes, 10), err
}

func processes(text string) (string, error) {
	if text == noBound {
		return text, nil
	}
	return number(text, 1, 1<<22)
}

func weight(text string) (string, error) { return number(text, 1, 10000) }

func number(text string, least, most uint64) (string, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < least || n > most {
		return "", fmt.Errorf("want a number from %d to %d, not %q", least, most, text)
	}
	return strconv.FormatUint(n, 10), nil
}

// Enter moves this process into the group that is the folder dir, which is made if it isn't there,
// with these bounds. The group stays when the process has ended.
func Enter(dir string, b Bounds) error {
	if err := enter(dir, b); err != nil {
		return fmt.Errorf("the control group %s: %w", dir, err)
	}
	return nil
}

func enter(dir string, b Bounds) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fix(err, "give its parent to this user (Delegate=yes of a service, or systemd-run "+
			"-p Delegate=yes)")
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
		return fix(err, "name a folder where version 2 is mounted, mostly below /sys/fs/cgroup")
	}
	if err := delegated(dir, b); err != nil {
		return err
	}
	for _, name := range Names() {
		if value, is := b[name]; is {
			if err := write(dir, name, value); err != nil {
				return fix(err, "this kernel may have no "+name+", or this user no right to it")
			}
		}
	}
	if err := write(dir, "cgroup.procs", "0"); err != nil {
		return fix(err, "this user needs the right to write cgroup.procs of the group, and of the "+
			"nearest one above both it and that in which paracuda is started")
	}
	return nil
}

// delegated makes the parent delegate the controllers that the bounds need.
func delegated(dir string, b Bounds) error {
	for _, name := range Names() {
		controller, _, _ := strings.Cut(name, ".")
		if _, needed := b[name]; !needed {
			continue
		}
		has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			return err
		}
		if slices.Contains(strings.Fields(string(has)), controller) {
			continue
		}
		parent := filepath.Dir(filepath.Clean(dir))
		if err := write(parent, "cgroup.subtree_control", "+"+controller); err != nil {
			return fix(fmt.Errorf("%s isn't delegated to it: %w", name, err),
				fmt.Sprintf("as root, echo +%s >%s/cgroup.subtree_control", controller, parent))
		}
	}
	return nil
}

// write writes to a file of a group that is there.
func write(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func fix(err error, how string) error { return fmt.Errorf("%w: %s", err, how) }
