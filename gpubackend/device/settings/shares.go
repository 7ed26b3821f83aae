// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// Sharer asks an arbiter for another policy of the VM. What it refuses isn't set.
type Sharer interface {
	Set(policy map[string]string) error
	// Joined says whether there is an arbiter now.
	Joined() bool
	// Stay tells where the VM's memory is.
	Stay(*link.Place)
	// VM is the VM's state at the arbiter a moment ago; nil: nobody has said.
	VM() *link.VM
}

// timeSettings are the VM's share of the GPU's time, which an arbiter gives it.
func timeSettings() (list []setting) {
	for _, k := range turns.Settings {
		list = append(list, setting{k.Name, k.Value, k.Help, reading{
			set: func(s *Settings, v string) error { return errors.Unwrap(s.Time.Set(k.Name, v)) },
			get: func(s *Settings) string { return s.Time.Values()[k.Name] },
		}})
	}
	return list
}

// Wishes are the settings that an arbiter is asked to grant, by their keys.
func (s *Settings) Wishes() map[string]string {
	wishes := s.Time.Values()
	for key, value := range s.Values() {
		var p policy.Policy
		if isShared(key) && p.Set(key, value) == nil {
			wishes[key] = value
		}
	}
	return wishes
}

// isShared says whether a setting concerns other VMs.
func isShared(key string) bool {
	return slices.ContainsFunc(policy.Keys, func(k turns.Setting) bool { return k.Name == key })
}

// arbitrated is the part of the settings in which an arbiter has a say. Its functions may take
// locks, so callers of its methods hold none, except for holds and turns.
type arbitrated struct {
	sharer   Sharer                  // nil: there can't be an arbiter
	set      func(text string) error // changes a setting, whatever an arbiter says of it
	settings func() Settings         // that hold

	mu    sync.Mutex        // held while settings change
	owned map[string]string // the owner's, for which an arbiter has set others
}

func newShares(sharer Sharer, set func(string) error, settings func() Settings) *arbitrated {
	return &arbitrated{sharer: sharer, set: set, settings: settings, owned: map[string]string{}}
}

// change changes a setting for the owner: one that concerns other VMs only if the arbiter agrees.
func (x *arbitrated) change(text string) error {
	if key, _, _ := strings.Cut(text, "="); isShared(key) {
		return x.setShared(key, text)
	}
	return x.set(text)
}

// setShared changes a setting that the arbiter has a say in.
func (x *arbitrated) setShared(key, text string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.owned[key]; ok {
		return fmt.Errorf("%w %s: the arbiter has set it for this VM: change it there, "+
			"or with paracuda set --vm", ErrSetting, text)
	}
	s := x.settings()
	before := s.Wishes()
	if err := s.Set(text); err != nil {
		return err
	}
	if x.sharer == nil {
		return x.set(text)
	}
	if err := x.sharer.Set(s.Wishes()); err != nil {
		return fmt.Errorf("%w %s: %w", ErrSetting, text, err)
	}
	err := x.set(text)
	if err != nil {
		_ = x.sharer.Set(before)
	}
	return err
}

// bound makes settings hold that the arbiter's operator has set, in place of the owner's. Settings
// that it no longer sets are again the owner's.
func (x *arbitrated) bound(bounds map[string]string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var errs []error
	for key, value := range x.owned {
		if _, still := bounds[key]; !still {
			errs = append(errs, x.set(key+"="+value))
			delete(x.owned, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(bounds)) {
		s := x.settings()
		own := s.Values()[key]
		if err := x.set(key + "=" + bounds[key]); err != nil {
			errs = append(errs, err)
			continue
		}
		if _, ok := x.owned[key]; !ok {
			x.owned[key] = own
		}
	}
	return errors.Join(errs...)
}

// holds says from when on a changed setting holds.
func (x *arbitrated) holds(text string) string {
	key, _, _ := strings.Cut(text, "=")
	if !policy.IsTime(key) && key != policy.Mode && key != policy.Exclusive {
		return holdsSince(text)
	}
	if x.sharer == nil || !x.sharer.Joined() {
		return "when there is an arbiter"
	}
	return "at once"
}

// turns are what the arbiter tells of the VM; nil: nothing.
func (x *arbitrated) turns() *link.VM {
	if x.sharer == nil {
		return nil
	}
	return x.sharer.VM()
}
