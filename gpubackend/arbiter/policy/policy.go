// SPDX-License-Identifier: Apache-2.0

// Package policy is what an operator sets for a VM: its share of the GPUs' time, which the arbiter
// gives it (package turns), and bounds that its device process keeps. The package knows the
// settings by their keys, and reads the arbiter's configuration file.
//
// Who may lie: nobody, but the operator makes mistakes. An error changes nothing, and names its
// place.
package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/paracuda/paracuda/gpubackend/size"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// The keys of settings that device processes keep.
const (
	Memory    = "memory"
	Guarantee = "memory-guarantee"
	Processes = "processes"
)

// Mode is a key that only the arbiter uses: whether the VM's memory may be moved out.
const Mode = "memory-mode"

// Exclusive is another key that only the arbiter uses: whether the VM has its GPUs alone.
const Exclusive = "exclusive"

// The values of Exclusive.
const (
	On  = "on"
	Off = "off"
)

// The values of Mode.
const (
	ModeOff  = "off"
	ModeSwap = "swap"
)

// MaxProcesses is how many processes of a VM can use the GPU at most.
const MaxProcesses = 64

// Policy is what is set for a VM. The zero value of a field is its default.
type Policy struct {
	Time      turns.Policy
	Memory    uint64 // of the GPU, at most; 0: as the device process has it
	Guarantee uint64 // of the GPU, kept for the VM; 0: as the device process has it
	Processes int    // of the guest that use the GPU, at most; 0: as the device process has it
	Mode      string // of memory; "": as the device process has it
	Exclusive string // On or Off; "": as the device process has it
}

// Keys are all settings, as Set takes them.
var Keys = slices.Concat(turns.Settings, []turns.Setting{
	{Name: Memory, Value: "SIZE", Help: "memory of the GPU that the VM may have"},
	{Name: Guarantee, Value: "SIZE", Help: "memory that VMs of memory-mode=swap leave to it"},
	{Name: Mode, Value: "off|swap", Help: "whether the VM takes turns with the GPU's memory"},
	{Name: Exclusive, Value: "on|off", Help: "whether no other VM may have one of its GPUs"},
	{Name: Processes, Value: "N", Help: fmt.Sprintf(
		"processes of the guest that may use the GPU at a time, 1 to %d", MaxProcesses)},
})

// IsTime says whether a key concerns a VM's share of time.
func IsTime(key string) bool {
	return slices.ContainsFunc(turns.Settings, func(k turns.Setting) bool { return k.Name == key })
}

// ErrKey is returned for a setting that doesn't exist.
var ErrKey = errors.New("unknown key: want weight, time-limit, class, turn, memory, " +
	"memory-guarantee, memory-mode, exclusive or processes")

// Set changes one setting. After an error the policy is as it was.
func (p *Policy) Set(key, value string) error {
	return p.SetAll(map[string]string{key: value})
}

// SetAll changes several settings, or none if one is wrong.
func (p *Policy) SetAll(settings map[string]string) error {
	q := *p
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if err := q.set(key, settings[key]); err != nil {
			return err
		}
	}
	if err := q.Check(); err != nil {
		return err
	}
	*p = q
	return nil
}

// set changes one setting, without a check against the others.
func (p *Policy) set(key, value string) (err error) {
	switch {
	case IsTime(key):
		return p.Time.Set(key, value)
	case key == Memory:
		p.Memory, err = amount(value)
	case key == Guarantee:
		p.Guarantee, err = amount(value)
	case key == Mode:
		if err = CheckMode(value); err == nil {
			p.Mode = value
		}
	case key == Exclusive:
		if err = CheckExclusive(value); err == nil {
			p.Exclusive = value
		}
	case key == Processes:
		p.Processes, err = processCount(value)
	default:
		return fmt.Errorf("%.40q: %w", key, ErrKey)
	}
	if err != nil {
		return fmt.Errorf("%s=%.40s: %w", key, value, err)
	}
	return nil
}

// amount reads a size. 0 is refused: it stands for the default.
func amount(value string) (uint64, error) {
	n, err := size.Parse(value)
	if err == nil && n == 0 {
		err = errors.New("want a size above 0, like 8G")
	}
	return n, err
}

// CheckMode says what is wrong with a mode.
func CheckMode(value string) error {
	if value != ModeOff && value != ModeSwap {
		return errors.New("want off or swap")
	}
	return nil
}

// CheckExclusive says what is wrong with a value of Exclusive.
func CheckExclusive(value string) error {
	if value != On && value != Off {
		return errors.New("want on or off")
	}
	return nil
}

func processCount(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > MaxProcesses {
		return 0, fmt.Errorf("want a number from 1 to %d", MaxProcesses)
	}
	return n, nil
}

// Check says what is wrong with a policy.
func (p Policy) Check() error {
	if p.Memory != 0 && p.Guarantee > p.Memory {
		return fmt.Errorf("memory-guarantee %s is more than memory %s",
			size.Format(p.Guarantee), size.Format(p.Memory))
	}
	return p.Time.Check()
}

// Bounds are the settings that the device process is to keep, by their keys.
func (p Policy) Bounds() map[string]string {
	b := map[string]string{}
	if p.Memory != 0 {
		b[Memory] = size.Format(p.Memory)
	}
	if p.Guarantee != 0 {
		b[Guarantee] = size.Format(p.Guarantee)
	}
	if p.Processes != 0 {
		b[Processes] = strconv.Itoa(p.Processes)
	}
	if p.Mode != "" {
		b[Mode] = p.Mode
	}
	if p.Exclusive != "" {
		b[Exclusive] = p.Exclusive
	}
	return b
}

// Values are all settings, by their keys, except those of device processes that aren't set.
func (p Policy) Values() map[string]string {
	all := p.Time.Values()
	maps.Copy(all, p.Bounds())
	return all
}
