// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"fmt"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/plain"
)

// present is one of our devices that QEMU has.
type present struct {
	name    string // its id, or its path in QEMU's tree if it has none
	chardev string
	dead    bool // its back end is gone
}

// places are where QEMU keeps devices that users added: with an id, and without.
var places = []struct {
	path string
	ids  bool
}{{"/machine/peripheral", true}, {"/machine/peripheral-anon", false}}

// isOurs says whether a device in QEMU carries our queues.
func (m *monitor) isOurs(path, kind string) bool {
	var tag string
	var id int
	switch kind {
	case "child<" + carriers[FS].driver + ">":
		return m.property(path, "tag", &tag) == nil &&
			(tag == wire.FsTag || strings.HasPrefix(tag, wire.FsTag+":"))
	case "child<" + carriers[Generic].driver + ">":
		return m.property(path, "virtio-id", &id) == nil && id == wire.VirtioIdStock
	}
	return false
}

// devices lists all of our devices.
func (m *monitor) devices() ([]present, error) {
	gone, err := m.disconnected()
	if err != nil {
		return nil, err
	}
	var all []present
	for _, place := range places {
		var children []struct{ Name, Type string }
		if err := m.run("qom-list", arguments{"path": place.path}, &children); err != nil {
			return nil, err
		}
		for _, c := range children {
			path := place.path + "/" + c.Name
			if !m.isOurs(path, c.Type) {
				continue
			}
			p := present{name: path}
			if place.ids {
				p.name = c.Name
			}
			if err := m.property(path, "chardev", &p.chardev); err != nil {
				return nil, err
			}
			p.dead = gone[p.chardev]
			all = append(all, p)
		}
	}
	return all, nil
}

func (m *monitor) property(path, name string, value any) error {
	return m.run("qom-get", arguments{"path": path, "property": name}, value)
}

// disconnected are the chardevs whose other end is gone.
func (m *monitor) disconnected() (map[string]bool, error) {
	var chardevs []struct{ Label, Filename string }
	err := m.run("query-chardev", nil, &chardevs)
	gone := map[string]bool{}
	for _, c := range chardevs {
		gone[c.Label] = strings.HasPrefix(c.Filename, "disconnected:")
	}
	return gone, err
}

// retire takes out our other devices whose back ends are gone, and tells the user of those that
// remain.
func (m *monitor) retire(d Device, say func(string)) error {
	all, err := m.devices()
	if err != nil {
		return fmt.Errorf("attach %s: look for other devices: %w", d.ID, err)
	}
	for _, p := range all {
		switch {
		case p.name == d.ID:
		case !p.dead:
			say(fmt.Sprintf("the VM has another device, %s, whose device process runs: "+
				"programs use the first", plain.Text(p.name)))
		default:
			if err := m.unplug(p.name); err != nil {
				say(fmt.Sprintf("the VM has another device, %s, whose device process has ended, "+
					"and it can't be taken out: %v. "+
					"Programs change to the new one within a minute", plain.Text(p.name), err))
				continue
			}
			say(fmt.Sprintf("took out the device %s, whose device process had ended",
				plain.Text(p.name)))
			m.run("chardev-remove", arguments{"id": p.chardev}, nil)
		}
	}
	return nil
}
