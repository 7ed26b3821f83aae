// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"strings"
	"testing"
)

// TestAttachFindsAPort: the one meant for it, that of a device that is replaced, or a free one.
func TestAttachFindsAPort(t *testing.T) {
	for name, tt := range map[string]struct {
		ports map[string]bool
		bus   string // of a device that is there already
		want  string
	}{
		"the one named for it": {map[string]bool{Port: true, "pci.9": false}, "", Port},
		"the last free one":    {map[string]bool{"pci.9": false, "pci.10": false}, "", "pci.10"},
		"one that isn't used":  {map[string]bool{"pci.9": false, "pci.10": true}, "", "pci.9"},
		"the one before's":     {map[string]bool{"pci.1": true, "pci.2": false}, "pci.1", "pci.1"},
		"none":                 {map[string]bool{"pci.1": true}, "", Port},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.ports = tt.ports
			if tt.bus != "" {
				f.devices["paracuda0"] = map[string]any{"driver": "vhost-user-fs-pci",
					"tag": "paracuda", "chardev": "old",
					"parent_bus": peripherals + "/" + tt.bus + "/" + tt.bus}
				f.chardevs["old"] = true
			}
			err := Attach(context.Background(), QMP(f.socket), Device{Socket: "/run/d"}, Options{})
			if got := f.devices["paracuda0"]["bus"]; err != nil || got != tt.want {
				t.Errorf("it is in %v, not %s: %v", got, tt.want, err)
			}
		})
	}
}

// TestPortsCannotBeLookedFor: the error of the look for ports is returned.
func TestPortsCannotBeLookedFor(t *testing.T) {
	f := newFake(t)
	f.refuse["qom-list"] = "broken"
	err := Attach(context.Background(), QMP(f.socket), Device{Socket: "/run/d"}, Options{})
	if err == nil || !strings.Contains(err.Error(), "qom-list: broken") {
		t.Error(err)
	}
}
