// SPDX-License-Identifier: Apache-2.0

package plug

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/qemu"
)

// TestTarget: a VM must be named in exactly one way.
func TestTarget(t *testing.T) {
	for _, tt := range []struct {
		vm   target
		want string // the error; "": none
	}{
		{target{qmp: "/run/q"}, ""}, {target{domain: "d"}, ""},
		{target{domain: "d", uri: "qemu:///session"}, ""},
		{target{}, "x: want --qmp SOCKET or --domain NAME"},
		{target{qmp: "/run/q", domain: "d"}, "want --qmp SOCKET or --domain NAME"},
		{target{qmp: "/run/q", uri: "u"}, "x: --connect is for --domain"},
		{target{qmp: "/" + strings.Repeat("q", 200)}, "--qmp: the path has 201 bytes"},
	} {
		_, err := tt.vm.of("x")
		if tt.want == "" && err != nil || tt.want != "" &&
			(err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%+v: %v, want %q", tt.vm, err, tt.want)
		}
	}
	got, err := (&target{domain: "d", uri: "u"}).of("x")
	if err != nil || got != (qemu.LibvirtDomain{URI: "u", Name: "d"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRunning: the VMs of which libvirt has descriptions are offered.
func TestRunning(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.xml", "b.pid", "c.d.xml"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := running(dir, dir+"/nowhere"); !slices.Equal(got, []string{"a", "c.d"}) {
		t.Errorf("%q", got)
	}
}

// TestCarrierOption: an unknown carrier is refused as the option is read.
func TestCarrierOption(t *testing.T) {
	c := Attach()
	for name, good := range map[string]bool{"fs": true, "generic": true, "pigeon": false} {
		if err := c.Flags().Set("carrier", name); (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
