// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os/exec"
	"regexp"
	"testing"
	"time"
)

// aliased is a file of a package in one of the directories that are links to those of /usr. Debian
// 12's lintian says nothing of them, later ones do.
var aliased = regexp.MustCompile(`(?m) \./(bin|sbin|lib[0-9a-z]*)/.*$`)

// checkPackage looks whether a package is as Debian wants them, and has Debian's checker look.
func checkPackage(t *testing.T, deb string) {
	t.Helper()
	list := command(t, time.Minute, root, "dpkg-deb", "-c", deb)
	if list.exit != 0 || list.stdout == "" {
		t.Errorf("%s: exit code %d:%s", deb, list.exit, tail(list.stderr))
	}
	for _, file := range aliased.FindAllString(list.stdout, -1) {
		t.Errorf("%s: it isn't below /usr:%s", deb, file)
	}
	t.Run("lintian", func(t *testing.T) {
		if _, err := exec.LookPath("lintian"); err != nil {
			skip(t, "no lintian here: run scripts/apt-deps")
		}
		r := command(t, 2*time.Minute, root, "lintian", "--fail-on", "error,warning",
			"--allow-root", deb)
		if r.exit != 0 || r.stdout != "" {
			t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
		}
	})
}
