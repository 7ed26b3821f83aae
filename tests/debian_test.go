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

// aliased matches a package's file in a directory that is a link to one of /usr. Debian 12's
// lintian accepts such files, later ones don't.
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

// checkPackage checks that none of a package's files is in such a directory, and runs lintian.
func checkPackage(t *testing.T, deb string) {
	t.Helper()
	for _, name := range filesOf(t, deb) {
		if aliased.MatchString(name) {
			t.Errorf("%s: %s is in a directory that is a link to one of /usr", deb, name)
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
