// SPDX-License-Identifier: Apache-2.0

package turns

// maxDebts bounds how many VMs that left are remembered.
const maxDebts = 4096

// debts are the virtual times of VMs that left ahead of the others, by name: a VM gains nothing by
// leaving and coming back.
type debts map[string]virtual

// keep remembers a VM that leaves, if it is ahead of the time.
func (d debts) keep(name string, charged, now virtual) {
	if charged <= now {
		return
	}
	if len(d) >= maxDebts {
		d.forget(now)
	}
	d[name] = charged
}

// take returns what a VM had been charged, 0 if it isn't remembered.
func (d debts) take(name string) virtual {
	charged := d[name]
	delete(d, name)
	return charged
}

// forget drops the debts that the time has passed, or, if there are none, the smallest.
func (d debts) forget(now virtual) {
	smallest, least := "", virtual(0)
	for name, charged := range d {
		if charged <= now {
			delete(d, name)
		} else if smallest == "" || charged < least {
			smallest, least = name, charged
		}
	}
	if len(d) >= maxDebts {
		delete(d, smallest)
	}
}
