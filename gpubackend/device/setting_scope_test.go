// SPDX-License-Identifier: Apache-2.0

package device

import (
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
)

// TestAdminSaysWhatHolds changes settings, is told since when each holds, and asks for all of them.
func TestAdminSaysWhatHolds(t *testing.T) {
	_, path := newAdmin(t)
	for _, x := range []struct{ set, holds, refused string }{
		{set: "batch-commands=7", holds: "at once"},
		{set: "memory=1G", holds: "at once"},
		{set: "processes=3", holds: "at once"},
		{set: "soft-memory=128M", holds: "for programs that start from now on"},
		{set: "allow-pageable-access=on", refused: "does nothing here: the software GPU"},
	} {
		a, err := admin.Ask(path, admin.Request{Set: x.set})
		switch {
		case x.refused != "":
			if err == nil || !strings.Contains(err.Error(), x.refused) {
				t.Errorf("%s: %v, not %s", x.set, err, x.refused)
			}
		case err != nil:
			t.Errorf("%s: %v", x.set, err)
		case a.Holds != x.holds:
			t.Errorf("%s holds %q, not %q", x.set, a.Holds, x.holds)
		}
	}
	a, err := admin.Ask(path, admin.Request{Stats: true})
	if err != nil || a.GPU != "soft" || len(a.Policies) != len(settings.Keys()) {
		t.Fatalf("%+v, %v", a, err)
	}
	for key, want := range map[string]string{"batch-commands": "7", "memory": "1G",
		"soft-memory": "128M", "warm-workers": "0",
		"allow-pageable-access": "off", "channels": "16", "arena": "8M"} {
		if a.Policies[key] != want {
			t.Errorf("%s is %q, not %q", key, a.Policies[key], want)
		}
	}
}
