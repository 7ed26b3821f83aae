// SPDX-License-Identifier: Apache-2.0

package pcie

import (
	"os"
	"path/filepath"
	"testing"
)

// plug makes a device below a port, as the kernel shows them in sysfs. It returns the folder of
// links to devices.
func plug(t *testing.T, a Address, device, port map[string]string) string {
	t.Helper()
	root := t.TempDir()
	real := filepath.Join(root, "devices", "pci0000:00", "0000:00:01.0", a.String())
	folder := filepath.Join(root, "bus", "pci", "devices")
	for _, dir := range []string{real, folder} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(real, filepath.Join(folder, a.String())); err != nil {
		t.Fatal(err)
	}
	for dir, files := range map[string]map[string]string{real: device, filepath.Dir(real): port} {
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"),
				0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return folder
}

func files(speed, width, maxSpeed, maxWidth string) map[string]string {
	return map[string]string{
		"current_link_speed": speed, "current_link_width": width, "max_link_speed": maxSpeed,
		"max_link_width": maxWidth,
	}
}

func TestRead(t *testing.T) {
	h200 := files("32.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16")
	for _, tt := range []struct {
		name         string
		device, port map[string]string
		want         LinkStatus
	}{
		{"of one kind", h200, h200, LinkStatus{5, 16, 5, 16, 5, 0}},
		{"it rests", files("2.5 GT/s PCIe", "16", "16.0 GT/s PCIe", "16"), h200,
			LinkStatus{1, 16, 4, 16, 4, 0}},
		{"the port is slower and narrower", h200, files("8.0 GT/s PCIe", "8", "8.0 GT/s PCIe", "8"),
			LinkStatus{5, 16, 3, 8, 5, 0}},
		{"the port has no link", h200, nil, LinkStatus{5, 16, 5, 16, 5, 0}},
		{"an old kernel's words", files("8.0 GT/s", "8", "16.0 GT/s", "16"), nil,
			LinkStatus{3, 8, 4, 16, 4, 0}},
		{"the kernel doesn't know", files("Unknown", "255", "Unknown", "255"), h200, LinkStatus{}},
		{"a class", map[string]string{"class": "0x030200\n"}, nil, LinkStatus{Class: 0x302}},
		{"no class", map[string]string{"class": "0x1030200"}, nil, LinkStatus{}},
		{"nonsense", files("fast", "-1", "", "many"), h200, LinkStatus{}},
		{"no link", nil, nil, LinkStatus{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := Address{Domain: 1, Bus: 0xab, Device: 2}
			if got := Read(plug(t, a, tt.device, tt.port), a); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestReadNoDevice(t *testing.T) {
	if got := Read(filepath.Join(t.TempDir(), "none"), Address{}); got != (LinkStatus{}) {
		t.Errorf("got %+v of no device", got)
	}
}

func TestAddress(t *testing.T) {
	if got := (Address{Domain: 0x10000, Bus: 0xf, Device: 0x1a}).String(); got != "10000:0f:1a.0" {
		t.Errorf("got %q", got)
	}
}

// TestParse: addresses are read in each of the usual forms, and as they are printed.
func TestParse(t *testing.T) {
	for text, want := range map[string]Address{
		"0000:65:00.0": {Bus: 0x65}, "65:1f.0": {Bus: 0x65, Device: 0x1f},
		"00000001:C1:02.0": {Domain: 1, Bus: 0xc1, Device: 2},
		"10000:01:00.0":    {Domain: 0x10000, Bus: 1},
	} {
		var a Address
		if err := a.UnmarshalText([]byte(text)); err != nil || a != want {
			t.Errorf("%s: %v, %v", text, a, err)
		}
		if printed, err := a.MarshalText(); err != nil {
			t.Error(err)
		} else if again, err := Parse(string(printed)); err != nil || again != want {
			t.Errorf("%s: %s: %v, %v", text, printed, again, err)
		}
	}
	for _, text := range []string{
		"", ".0", "65", "65.0", "65:00", "65:00.1", "65:20.0", "100:00.0", "0:0:65:00.0", "-1:00.0",
		":65:00.0", "0000:g5:00.0",
	} {
		if a, err := Parse(text); err == nil {
			t.Errorf("%q: %v", text, a)
		}
	}
}
