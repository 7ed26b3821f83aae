// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// savedPrograms are those in a file, and what descriptors in the guest have of them.
type savedPrograms struct {
	*saving.Saving
	exports *exports.Exports
}

// Forget implements channels.Saved.
func (s savedPrograms) Forget(channel int) {
	s.Saving.Forget(channel)
	s.exports.Forget(channel)
}

// handOwed hands workers, which are about to go on, what their programs have imported meanwhile.
func (d *Device) handOwed() {
	d.exports.LetGo()
	for _, w := range d.channels.Serving() {
		d.objects.HandOwed(w.Channel())
	}
}

// filed is the VM's suspension, which takes up a file that another process, or host, has written:
// what programs import is owed to them until it is read.
type filed struct {
	*suspend.Suspension
	exports *exports.Exports
}

// TakeFile implements infile.Suspension.
func (f filed) TakeFile() error {
	err := f.Suspension.TakeFile()
	if err == nil {
		f.exports.Hold()
	}
	return err
}

// describe takes what descriptors in the guest stand for, of a VM whose device was away. Nobody
// offers again what programs had that have ended meanwhile.
func (d *Device) describe(state []byte) error {
	err := d.exports.Load(state, d.saving.Has)
	for channel := range wire.MaxChannels {
		if !d.saving.Has(channel) {
			d.exports.Forget(channel)
		}
	}
	return err
}

// savedObjects are what the driver's handles stand for, as it goes along with the VM.
type savedObjects struct {
	*exports.Exports
	saved func(channel int) bool
}

// Load implements savedstate.Objects.
func (c savedObjects) Load(state []byte) error { return c.Exports.Load(state, c.saved) }
