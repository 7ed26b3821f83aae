// SPDX-License-Identifier: Apache-2.0

package device

import "github.com/paracuda/paracuda/gpubackend/device/settings"

// Set changes a setting of the running VM. What only holds from the start can't be changed.
func (d *Device) Set(text string) error { return d.settings.Set(text) }

// Bound makes settings hold that the arbiter's operator has set.
func (d *Device) Bound(bounds map[string]string) error { return d.settings.Bound(bounds) }

// Shared notes for which part of the last moment the VM had its GPUs, as the arbiter says.
func (d *Device) Shared(part float64) { d.accounts.Shared(part) }

// changed makes everybody follow other settings.
func (d *Device) changed(before, now *settings.Now) {
	d.bound()
	d.ahead.Changed(before, now)
	d.serving.Policy(now.Policy)
	d.suspension.Trim()
}
