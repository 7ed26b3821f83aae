// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
)

// newSettings makes the settings of the VM.
func (d *Device) newSettings() *settings.VM {
	c := &d.config
	return settings.NewVM(c.Settings, settings.Config{
		GPU: c.GPU, Sharer: c.Sharer, Sequence: c.Sequence,
		Changed: d.changed, Kept: c.Remains.Changed,
	})
}

// Set changes a setting of the running VM. What only holds from the start can't be changed.
func (d *Device) Set(text string) error { return d.settings.Set(text) }

// Bound makes settings hold that the arbiter's operator has set.
func (d *Device) Bound(bounds map[string]string) error { return d.settings.Bound(bounds) }

// changed has everybody go by other settings.
func (d *Device) changed(before, now *settings.Now) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tell()
	if now.Settings == before.Settings {
		return
	}
	if now.Policy != before.Policy {
		d.warm.Keep(0) // they were started with the old one
	}
	d.accounts.SetBound(d.settings.MemoryBound())
	d.idle.SetTime(now.Settings.IdleTime)
	d.starts.SetRate(float64(now.Settings.Starts))
	d.refill()
	d.idle.Rested(d.used())
	policy := now.Policy
	for _, w := range d.channels.serving() {
		w.Tell(&handover.Message{Kind: handover.KindPolicy, Policy: &policy}, nil)
	}
}

// tell has the driver told that other settings hold, and the next process what it knows then.
// Device.mu is held.
func (d *Device) tell() {
	d.config.Remains.Note(func(f *remains.Facts) {
		f.Generation, f.Sequence = d.config.Generation, d.settings.Told().Sequence
	})
	if d.control != nil {
		d.control.SettingsChanged()
	}
}
