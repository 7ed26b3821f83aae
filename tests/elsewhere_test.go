// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestElsewhere: on a system where make demo and make test can't work, one line says so before
// anything is fetched or installed.
func TestElsewhere(t *testing.T) {
	release := func(name, id, version string) string {
		file := filepath.Join(t.TempDir(), "os-release")
		text := fmt.Sprintf("PRETTY_NAME=%q\nID=%s\n", name, id)
		if version != "" {
			text += fmt.Sprintf("VERSION_ID=%q\n", version)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	fedora := release("Fedora Linux 43", "fedora", "43")
	for _, tt := range []struct{ name, file, more, want string }{
		{"Debian 12", release("Debian 12", "debian", "12"), "", ""},
		{"Debian 13", release("Debian 13", "debian", "13"), "", ""},
		{"unstable", release("Debian forky/sid", "debian", ""), "", ""},
		{"Debian 11", release("Debian 11", "debian", "11"), "", "not for Debian 11: run it in a"},
		{"Fedora", fedora, "", "not for Fedora Linux 43: run it in a container"},
		{"nothing known", "/nowhere", "", "not for this system: run it in a container"},
		{"a mirror is named", release("Ubuntu 24.04", "ubuntu", "24.04"), "PARACUDA_MIRROR=here",
			"Ubuntu 24.04 has not been tried"},
		{"another processor", fedora, "ARCH=aarch64", "not for aarch64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := command(t, time.Minute, root, "env", "PARACUDA_MIRROR=", "OS_RELEASE="+tt.file,
				"X="+tt.more, "sh", "-c", "[ -z \"$X\" ] || export \"$X\"; exec scripts/on-debian")
			tried := strings.HasSuffix(tt.want, "tried")
			if (r.exit != 0) != (tt.want != "" && !tried) || !strings.Contains(r.stderr, tt.want) ||
				strings.Count(r.stderr, "\n") != min(1, len(tt.want)) {
				t.Errorf("exit code %d, %q, want one line with %q, or none if that is empty",
					r.exit, r.stderr, tt.want)
			}
		})
	}
	for _, goal := range []string{"demo", "test"} {
		r := command(t, time.Minute, root, "env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL",
			"PARACUDA_MIRROR=", "OS_RELEASE="+fedora,
			"PARACUDA_CACHE="+t.TempDir(), "make", goal)
		said, _, _ := strings.Cut(r.stderr, "\nmake")
		if r.exit != 2 || strings.Count(said, "\n") > 0 ||
			!strings.Contains(said, "on-debian: this is for Debian 12, 13 or unstable") {
			t.Errorf("make %s: exit code %d, %q, want 2 and one line of on-debian's", goal, r.exit,
				r.stderr)
		}
	}
}
