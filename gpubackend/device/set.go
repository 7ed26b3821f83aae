// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Set changes a setting of the running VM. What only holds from the start can't be changed.
func (d *Device) Set(text string) error {
	if err := d.shares.Set(text); err != nil {
		return err
	}
	d.config.Remains.Changed(text)
	return nil
}

// Bound makes settings hold that the arbiter's operator has set.
func (d *Device) Bound(bounds map[string]string) error { return d.shares.Bound(bounds) }

// current are the settings that hold.
func (d *Device) current() Settings {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settings
}

// set changes a setting, whatever an arbiter says of it.
func (d *Device) set(text string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.settings
	if err := s.Set(text); err != nil {
		return err
	}
	if err := suits(d.config.GPU, text); err != nil {
		return err
	}
	if err := s.Check(d.config.GPU); err != nil {
		return fmt.Errorf("%w %s: %w", ErrSetting, text, err)
	}
	space, policy := s.Build()
	if space.Channels != d.space.Channels || space.ArenaBytes != d.space.ArenaBytes {
		return fmt.Errorf("%w %s: it holds from the VM's start: give it to paracuda device",
			ErrSetting, text)
	}
	space.Sequence = d.space.Sequence + 1
	if policy != d.policy {
		d.warm.Keep(0) // they were started with the old one
	}
	d.settings, d.space, d.policy = s, space, policy
	d.accounts.SetBound(s.memoryBound(d.config.GPU))
	d.idle.SetTime(s.IdleTime)
	d.starts.SetRate(float64(s.Starts))
	d.tell()
	d.refill()
	d.idle.Rested(d.used())
	for _, c := range d.channels {
		if c.worker != nil {
			c.worker.tell(&handover.Message{Kind: handover.KindPolicy, Policy: &policy}, nil)
		}
	}
	return nil
}
