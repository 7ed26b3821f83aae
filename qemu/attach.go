// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paracuda/paracuda/internal/plain"
)

// unplugTime is how long a guest may take to let go of the device. Its driver may wait for an
// answer from a dead back end (30 s) meanwhile.
const unplugTime = 75 * time.Second

// unplugAgain is how long to wait before a guest is asked again: a guest that boots ignores the
// request. A guest that was only slow answers every request, and would also throw out a device that
// is plugged in before the last answer. settle waits for that.
var (
	unplugAgain = 6 * time.Second
	settle      = func() { time.Sleep(3 * time.Second) }
)

// ErrNotShared says that a back end could not see the guest's RAM.
var ErrNotShared = errors.New("the guest's memory is not shared")

// Attach plugs the device into a VM. A device of the same id is taken out first, as its back end
// may have died; but only once QEMU is connected to the new back end, since a missing one must not
// cost the VM a device that works.
func Attach(ctx context.Context, vm Target, d Device, o Options) error {
	m, err := vm.connect(ctx)
	if err != nil {
		return err
	}
	defer m.close()
	if d.Bus == "" {
		d.Bus, err = m.choosePort(d.complete().ID)
	}
	d = d.complete()
	if err == nil {
		err = m.fit(d.Carrier)
	}
	if err != nil {
		return fmt.Errorf("attach %s: %w", d.ID, err)
	}
	chardev, err := m.reach(d)
	if err != nil {
		return fmt.Errorf("attach %s: %w", d.ID, err)
	}
	err = m.retire(d, o.say)
	if err == nil {
		err = m.replace(d, chardev)
	}
	if err != nil {
		m.run("chardev-remove", arguments{"id": chardev}, nil)
		return err
	}
	return nil
}

// Options are how a device is attached.
type Options struct {
	Say func(string) // takes what the user should know; may be nil
}

func (o Options) say(text string) {
	if o.Say != nil {
		o.Say(text)
	}
}

// Detach takes the device of that id ("": the default) out of the VM, and returns once the guest
// has let go of it.
func Detach(ctx context.Context, vm Target, id string) error {
	m, err := vm.connect(ctx)
	if err != nil {
		return err
	}
	defer m.close()
	d := Device{ID: id}.complete()
	there, err := m.hasDevice(d.ID)
	if err != nil {
		return fmt.Errorf("detach %s: %w", d.ID, err)
	}
	if !there {
		return fmt.Errorf("detach %s: QEMU has no device of that id", d.ID)
	}
	return m.remove(d, "")
}

// fit returns an error if this QEMU can't have the device.
func (m *monitor) fit(c Carrier) error {
	if err := m.version.check(c); err != nil {
		return err
	}
	shared, err := m.sharesMemory()
	if err == nil && !shared {
		err = fmt.Errorf("%w: %s", ErrNotShared, m.fixes.shared)
	}
	return err
}

// reach connects QEMU to the back end, and returns the id of the chardev that it makes. A device
// may still have the other id.
func (m *monitor) reach(d Device) (string, error) {
	chardev, err := m.freeChardev(d)
	if err != nil {
		return "", err
	}
	socket := arguments{
		"addr":   arguments{"type": "unix", "data": arguments{"path": d.Socket}},
		"server": false,
	}
	backend := arguments{"type": "socket", "data": socket}
	err = m.run("chardev-add", arguments{"id": chardev, "backend": backend}, nil)
	if err != nil {
		return "", fmt.Errorf("%w: is paracuda device running there?", err)
	}
	return chardev, nil
}

// freeChardev returns one of the device's chardev ids. If QEMU has an unused chardev of that id, it
// is removed first; QEMU refuses to remove one in use.
func (m *monitor) freeChardev(d Device) (string, error) {
	var err error
	for _, id := range d.chardevs() {
		var there bool
		if there, err = m.hasChardev(id); err == nil && there {
			err = m.run("chardev-remove", arguments{"id": id}, nil)
		}
		if err == nil {
			return id, nil
		}
	}
	return "", err
}

// replace takes the device out, if it is there, and plugs it in with a connected chardev.
func (m *monitor) replace(d Device, chardev string) error {
	if err := m.remove(d, chardev); err != nil {
		return err
	}
	err := m.run("device_add", d.arguments(chardev), nil)
	if err != nil {
		return fmt.Errorf("attach %s: %w: %s", d.ID, err,
			strings.ReplaceAll(m.fixes.port, "PORT", plain.Text(d.Bus)))
	}
	return nil
}

// remove takes out the device, and its chardevs except keep, if they are there.
func (m *monitor) remove(d Device, keep string) error {
	there, err := m.hasDevice(d.ID)
	chardevs := d.chardevs()
	if err == nil && there {
		var own string // another one, perhaps from the command line
		if m.property("/machine/peripheral/"+d.ID, "chardev", &own) == nil &&
			!slices.Contains(chardevs, own) {
			chardevs = append(chardevs, own)
		}
		err = m.unplug(d.ID)
	}
	for _, id := range chardevs {
		if err != nil {
			break
		}
		if there, err = m.hasChardev(id); err == nil && there && id != keep {
			err = m.run("chardev-remove", arguments{"id": id}, nil)
		}
	}
	if err != nil {
		return fmt.Errorf("detach %s: %w", d.ID, err)
	}
	return nil
}

// unplug asks the guest to let go of the device until it does.
func (m *monitor) unplug(id string) error {
	again := time.NewTicker(unplugAgain)
	defer again.Stop()
	late := time.After(unplugTime)
	if err := m.run("device_del", arguments{"id": id}, nil); err != nil {
		return err
	}
	for asked := 1; ; {
		select {
		case deleted, open := <-m.deleted:
			if !open {
				return m.cause(errors.New("QEMU closed the connection"))
			}
			if deleted == id {
				if asked > 1 {
					settle()
				}
				return nil
			}
		case <-again.C:
			asked++
			// An error says that the guest hasn't answered the last request.
			m.run("device_del", arguments{"id": id}, nil)
		case <-late:
			return fmt.Errorf("the guest kept the device for %v: unload its driver, then try again",
				unplugTime)
		}
	}
}
