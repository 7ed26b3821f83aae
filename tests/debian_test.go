// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// aliased is a file of a package in one of the directories that are links to those of /usr. Debian
// 12's lintian says nothing of them, later ones do.
var aliased = regexp.MustCompile(`^\./(bin|sbin|lib[0-9a-z]*)/`)

// filesOf lists the files of a package.
func filesOf(t *testing.T, deb string) []string {
	t.Helper()
	r := command(t, time.Minute, root,
		"sh", "-c", "dpkg-deb --fsys-tarfile \"$1\" | tar -t", "", deb)
	if r.exit != 0 || r.stdout == "" {
		t.Fatalf("%s: exit code %d:%s", deb, r.exit, tail(r.stderr))
	}
	return slices.DeleteFunc(strings.Fields(r.stdout), func(name string) bool {
		return strings.HasSuffix(name, "/")
	})
}

// checkPackage looks whether a package is as Debian wants them, and has Debian's checker look.
func checkPackage(t *testing.T, deb string) {
	t.Helper()
	for _, name := range filesOf(t, deb) {
		if aliased.MatchString(name) {
			t.Errorf("%s: it isn't below /usr: %s", deb, name)
		}
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
