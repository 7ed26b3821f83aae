// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"path"
	"strings"
)

// peripherals is where QEMU has the devices with an id.
const peripherals = "/machine/peripheral"

// choosePort finds a PCIe port for a device: the one named Port, the one that a device of the same
// id has, or else the last free one: managers such as libvirt choose ports themselves, from the
// first on. If there is none it returns Port, which QEMU will miss.
func (m *monitor) choosePort(id string) (string, error) {
	var children []struct{ Name, Type string }
	if err := m.run("qom-list", arguments{"path": peripherals}, &children); err != nil {
		return "", err
	}
	free := ""
	for _, c := range children {
		switch {
		case c.Type == "child<pcie-root-port>" && c.Name == Port:
			return Port, nil
		case c.Type == "child<pcie-root-port>":
			used, err := m.isUsed(c.Name)
			if err != nil {
				return "", err
			}
			if !used && later(c.Name, free) {
				free = c.Name
			}
		case c.Name == id:
			var bus string
			if m.property(path.Join(peripherals, id), "parent_bus", &bus) == nil &&
				strings.HasPrefix(bus, peripherals+"/") {
				return path.Base(bus), nil
			}
		}
	}
	if free == "" {
		free = Port
	}
	return free, nil
}

// isUsed says whether something is plugged into a port. The port's bus has the same name.
func (m *monitor) isUsed(port string) (bool, error) {
	var on []struct{ Name string }
	err := m.run("qom-list", arguments{"path": path.Join(peripherals, port, port)}, &on)
	for _, c := range on {
		if strings.HasPrefix(c.Name, "child[") {
			return true, err
		}
	}
	return false, err
}

// later says whether a port's name sorts after another's: pci.10 does after pci.9.
func later(a, b string) bool {
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}
