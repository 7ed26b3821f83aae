// SPDX-License-Identifier: Apache-2.0

package device

import (
	"github.com/paracuda/paracuda/gpubackend/place"
	"github.com/paracuda/paracuda/gpubackend/remains"
)

// totalPart is the part of a real GPU's memory that its driver keeps for itself.
const totalPart = 64

// newPlace makes the part that moves the VM's memory to where an arbiter wants it.
func (d *Device) newPlace() *place.VM {
	before := &d.config.Before
	c := place.Config{
		Suspension: d.suspension, Guard: d.guard, Log: d.log,
		Holds:   d.accounts.All,
		Total:   func() uint64 { return 0 },
		SetRoom: func(uint64) {},
		Out:     before.Suspended && before.Ordered && d.config.Sharer != nil,
		Note: func(ordered bool) {
			d.config.Remains.Note(func(f *remains.Facts) { f.Ordered = ordered })
		},
	}
	if page := d.config.Ledger; page != nil {
		c.SetRoom = page.SetRoom
		if d.config.GPU == "cuda" {
			c.Total = func() uint64 { return page.Total() - page.Total()/totalPart }
		}
	}
	if d.config.Sharer != nil {
		c.Tell = d.config.Sharer.Stay
	}
	return place.New(c)
}

// Place is where the VM's memory is.
func (d *Device) Place() *place.VM { return d.place }
