// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// Config is what the settings of a VM that runs need.
type Config struct {
	GPU    string
	Sharer Sharer // who asks the arbiter; nil: there can't be one
	// Sequence is the number of the settings that an earlier process told the driver; 0: none did.
	Sequence uint32
	// Changed is called when the settings have changed, for one change after the other.
	Changed func(before, now *Now)
	// Kept is told what the owner has set, to be noted for the next device process.
	Kept func(text string)
}

// Now is what holds at a moment.
type Now struct {
	Settings Settings
	Space    wire.Settings // that the guest is told, with their sequence
	Policy   handover.Policy
}

// VM are the settings of a VM that runs.
type VM struct {
	config Config
	shares *arbitrated
	now    atomic.Pointer[Now]
	mu     sync.Mutex // of changes
	flags  uint32     // that the guest is told in addition to the settings' own; guarded by mu
}

// NewVM returns the settings of a VM that starts with these.
func NewVM(s Settings, c Config) *VM {
	v := &VM{config: c}
	v.shares = newShares(c.Sharer, v.set, func() Settings { return v.Now().Settings })
	now := &Now{Settings: s}
	now.Space, now.Policy = now.Settings.Build()
	if c.Sequence != 0 { // not the one that the driver has, so that it asks for the settings
		now.Space.Sequence = c.Sequence + 1
	}
	v.now.Store(now)
	return v
}

// Now is what holds. It must not be changed.
func (v *VM) Now() *Now { return v.now.Load() }

// Told is what the guest is told.
func (v *VM) Told() *wire.Settings { return &v.Now().Space }

// MemoryBound is what the VM may have of each GPU; 0 is all.
func (v *VM) MemoryBound() uint64 { return v.Now().Settings.MemoryBound(v.config.GPU) }

// HostBound is what the VM's processes may take of the host's memory together.
func (v *VM) HostBound() uint64 { return v.Now().Settings.HostBound(v.config.GPU) }

// HostEnd is what they may have of it before one is ended.
func (v *VM) HostEnd() uint64 { return v.Now().Settings.HostEnd(v.config.GPU) }

// HostBytes is what one guest process may make its worker take.
func (v *VM) HostBytes() uint64 { return v.Now().Settings.Policy.HostBytes(v.config.GPU) }

// WarmTarget is how many workers are kept warm while there is a driver and the VM isn't idle.
func (v *VM) WarmTarget() int { return v.Now().Settings.WarmTarget(v.config.GPU) }

// Values are the settings that hold, by keys, as the owner is told.
func (v *VM) Values() map[string]string {
	all := v.Now().Settings.Values()
	all["warm-workers"] = fmt.Sprint(v.WarmTarget())
	return all
}

// Set changes a setting for the owner. What only holds from the start can't be changed.
func (v *VM) Set(text string) error {
	if err := v.shares.change(text); err != nil {
		return err
	}
	v.config.Kept(text)
	return nil
}

// Bound makes settings hold that the arbiter's operator has set.
func (v *VM) Bound(bounds map[string]string) error { return v.shares.bound(bounds) }

// Holds says from when on a changed setting holds.
func (v *VM) Holds(text string) string { return v.shares.holds(text) }

// Turns are what the arbiter tells of the VM; nil: nothing.
func (v *VM) Turns() *link.VM { return v.shares.turns() }

// Follow gives the settings another number than the driver's, so that it asks for them.
func (v *VM) Follow(sequence uint32) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.Now()
	next := *before
	next.Space.Sequence = sequence + 1
	v.become(before, &next)
}

// GoesAway tells the guest whether its device is going to be away.
func (v *VM) GoesAway(goes bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.Now()
	next := *before
	next.Space.Flags &^= v.flags
	if v.flags = 0; goes {
		v.flags = wire.ConfigFlagGoesAway
	}
	next.Space.Flags |= v.flags
	next.Space.Sequence++
	v.become(before, &next)
}

// become replaces the settings. The lock of changes is held.
func (v *VM) become(before, next *Now) {
	v.now.Store(next)
	v.config.Changed(before, next)
}

// set changes a setting, whatever an arbiter says of it.
func (v *VM) set(text string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.Now()
	next := &Now{Settings: before.Settings}
	s := &next.Settings
	if err := s.Set(text); err != nil {
		return err
	}
	if err := suits(v.config.GPU, text); err != nil {
		return err
	}
	if err := s.Check(v.config.GPU); err != nil {
		return fmt.Errorf("%w %s: %w", ErrSetting, text, err)
	}
	next.Space, next.Policy = s.Build()
	if next.Space.Channels != before.Space.Channels ||
		next.Space.ArenaBytes != before.Space.ArenaBytes {
		return fmt.Errorf("%w %s: it holds from the VM's start: give it to paracuda device",
			ErrSetting, text)
	}
	next.Space.Flags |= v.flags
	next.Space.Sequence = before.Space.Sequence + 1
	v.become(before, next)
	return nil
}
