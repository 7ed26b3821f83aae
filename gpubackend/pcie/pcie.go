// SPDX-License-Identifier: Apache-2.0

// Package pcie has a device's place on PCI Express, and reads what the host's kernel says about its
// link.
package pcie

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Devices is where the kernel lists PCI devices.
const Devices = "/sys/bus/pci/devices"

// Address is a device's place on the bus.
type Address struct {
	Domain, Bus, Device uint32
}

func (a Address) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.0", a.Domain, a.Bus, a.Device)
}

// Parse reads an address as the kernel or nvidia-smi print it; a domain that isn't there is 0.
func Parse(text string) (a Address, err error) { return parse(text, 5) }

// parse reads an address whose device number has this many bits.
func parse(text string, deviceBits int) (a Address, err error) {
	bad := fmt.Errorf("%.40q: want a bus id, as 0000:65:00.0", text)
	device, ok := strings.CutSuffix(text, ".0")
	parts := strings.Split(device, ":")
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	if !ok || len(parts) != 3 {
		return a, bad
	}
	for i, field := range []struct {
		to   *uint32
		bits int
	}{{&a.Domain, 32}, {&a.Bus, 8}, {&a.Device, deviceBits}} {
		n, err := strconv.ParseUint(parts[i], 16, field.bits)
		if err != nil {
			return Address{}, bad
		}
		*field.to = uint32(n)
	}
	return a, nil
}

// MarshalText makes JSON show an address as it is printed.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what MarshalText has written. For an unknown place NVML writes
// ffffffff:ff:ff.0, which no device has.
func (a *Address) UnmarshalText(text []byte) (err error) {
	*a, err = parse(string(text), 8)
	return err
}

// LinkStatus is how fast a PCI Express link is and can be, and the class of the device there. What
// isn't known is 0: all of it if the kernel hides its devices, as in many containers, or the device
// isn't on PCI Express.
type LinkStatus struct {
	Generation, Width       uint32 // at the moment; an idle device may have less
	MaxGeneration, MaxWidth uint32 // of the device in its slot
	OwnGeneration           uint32 // of the device in any slot
	Class                   uint16 // of the PCI device, with its subclass in the low half
}

// Read returns the link of the device in a folder like [Devices].
func Read(folder string, a Address) LinkStatus {
	device := filepath.Join(folder, a.String())
	// The names in folder are links into the tree of devices, where the parent is the port.
	if real, err := filepath.EvalSymlinks(device); err == nil {
		device = real
	}
	port := filepath.Dir(device)
	own := generation(device, "max_link_speed")
	return LinkStatus{
		Generation:    generation(device, "current_link_speed"),
		Width:         width(device, "current_link_width"),
		MaxGeneration: least(own, generation(port, "max_link_speed")),
		MaxWidth:      least(width(device, "max_link_width"), width(port, "max_link_width")),
		OwnGeneration: own,
		Class:         class(device),
	}
}

// class reads the class: the kernel writes class, subclass and interface as one number.
func class(folder string) uint16 {
	n, err := strconv.ParseUint(text(folder, "class"), 0, 24)
	if err != nil {
		return 0
	}
	return uint16(n >> 8)
}

// least is the smaller of two values, of which 0 is unknown.
func least(device, port uint32) uint32 {
	if port == 0 {
		return device
	}
	return min(device, port)
}

// generations are the kernel's words for the speeds of one lane.
var generations = map[string]uint32{
	"2.5 GT/s": 1, "5.0 GT/s": 2, "8.0 GT/s": 3, "16.0 GT/s": 4, "32.0 GT/s": 5, "64.0 GT/s": 6,
	"128.0 GT/s": 7,
}

func generation(folder, name string) uint32 {
	speed, _, _ := strings.Cut(text(folder, name), " PCIe") // kernels from 5.10 on append the word
	return generations[speed]
}

// maxWidth is the most lanes that a link can have. The kernel writes 255 for what it doesn't know.
const maxWidth = 32

func width(folder, name string) uint32 {
	n, err := strconv.ParseUint(text(folder, name), 10, 32)
	if err != nil || n > maxWidth {
		return 0
	}
	return uint32(n)
}

func text(folder, name string) string {
	b, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
