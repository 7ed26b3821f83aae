// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// Sharer asks an arbiter for another policy of the VM. What it refuses isn't set.
type Sharer interface {
	Set(policy map[string]string) error
	// Joined says whether there is an arbiter now.
	Joined() bool
	// VM is the VM as the arbiter had it a moment ago; nil: nobody has said.
	VM() *link.VM
}

// timeSettings are the VM's share of the GPU's time, which an arbiter gives it.
func timeSettings() (list []setting) {
	for _, k := range turns.Keys {
		list = append(list, setting{k.Name, k.Value, k.Help, access{
			set: func(s *Settings, v string) error { return errors.Unwrap(s.Time.Set(k.Name, v)) },
			get: func(s *Settings) string { return s.Time.Values()[k.Name] },
		}})
	}
	return list
}

// Wishes are the settings that an arbiter is asked for, by their keys.
func (s *Settings) Wishes() map[string]string {
	wishes := s.Time.Values()
	for key, value := range s.values() {
		var p policy.Policy
		if isShared(key) && p.Set(key, value) == nil {
			wishes[key] = value
		}
	}
	return wishes
}

// isShared says whether a setting concerns other VMs.
func isShared(key string) bool {
	return slices.ContainsFunc(policy.Keys, func(k turns.Key) bool { return k.Name == key })
}

// setShared changes a setting that the arbiter has a say in.
func (d *Device) setShared(key, text string) error {
	d.sharing.Lock()
	defer d.sharing.Unlock()
	if _, ok := d.owned[key]; ok {
		return fmt.Errorf("%w %s: the arbiter has set it for this VM: change it there, "+
			"or with paracuda set --vm", ErrSetting, text)
	}
	d.mu.Lock()
	s := d.settings
	d.mu.Unlock()
	before := s.Wishes()
	if err := s.Set(text); err != nil {
		return err
	}
	sharer := d.config.Sharer
	if sharer == nil {
		return d.set(text)
	}
	if err := sharer.Set(s.Wishes()); err != nil {
		return fmt.Errorf("%w %s: %w", ErrSetting, text, err)
	}
	err := d.set(text)
	if err != nil {
		_ = sharer.Set(before)
	}
	return err
}

// Bound makes settings hold that the arbiter's operator has set, in place of the owner's. Those
// that were set so before, and aren't any more, are again as the owner has them.
func (d *Device) Bound(bounds map[string]string) error {
	d.sharing.Lock()
	defer d.sharing.Unlock()
	var errs []error
	for key, value := range d.owned {
		if _, still := bounds[key]; !still {
			errs = append(errs, d.set(key+"="+value))
			delete(d.owned, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(bounds)) {
		own := d.policies()[key]
		if err := d.set(key + "=" + bounds[key]); err != nil {
			errs = append(errs, err)
			continue
		}
		if _, ok := d.owned[key]; !ok {
			d.owned[key] = own
		}
	}
	return errors.Join(errs...)
}

// holds says since when a setting holds that was changed.
func (d *Device) holds(text string) string {
	if key, _, _ := strings.Cut(text, "="); !policy.IsTime(key) {
		return holdsSince(text)
	}
	if d.config.Sharer == nil || !d.config.Sharer.Joined() {
		return "when there is an arbiter"
	}
	return "at once"
}

// turns are what the arbiter tells of the VM; nil: nothing.
func (d *Device) turns() *link.VM {
	if d.config.Sharer == nil {
		return nil
	}
	return d.config.Sharer.VM()
}

// Set changes a setting of the running VM. What only holds from the start can't be changed.
func (d *Device) Set(text string) error {
	if key, _, _ := strings.Cut(text, "="); isShared(key) {
		return d.setShared(key, text)
	}
	return d.set(text)
}
