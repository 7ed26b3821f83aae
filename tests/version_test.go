// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestVersion runs scripts/version in many kinds of trees, one after another.
func TestVersion(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	for _, file := range []string{"scripts/version", "VERSION"} {
		to := filepath.Join(tree, file)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		text := read(t, file)
		if file == "VERSION" {
			text = []byte("7.8.9\n")
		}
		if err := os.WriteFile(to, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	git := "git -c user.name=a -c user.email=a@example.org -c init.defaultBranch=main " +
		"-c safe.directory='*' "
	versions := map[string]string{}
	for _, tt := range []struct{ name, script, want string }{
		{"no git", "true", `^7\.8\.9$`},
		{"in another's repository", git + "-C .. init -q", `^7\.8\.9$`},
		{"no tag", git + "init -q && " + git + "add . && " + git + "commit -qm x",
			`^7\.8\.9~1\.g[0-9a-f]{9}$`},
		{"no tag, changed", "echo >>VERSION", `^7\.8\.9~1\.g[0-9a-f]{9}\.dirty$`},
		{"a tag of another kind", git + "commit -qam y && " + git + "tag vital",
			`^7\.8\.9~2\.g[0-9a-f]{9}$`},
		{"release", git + "tag v7.8.9", `^7\.8\.9$`},
		{"release, changed", "echo >>VERSION", `^7\.8\.9\+dirty$`},
		{"after it", git + "commit -qam z", `^7\.8\.9\+1\.g[0-9a-f]{9}$`},
		{"after it, changed", "echo >>VERSION", `^7\.8\.9\+1\.g[0-9a-f]{9}\.dirty$`},
	} {
		if r := command(t, time.Minute, tree, "sh", "-c", tt.script); r.exit != 0 {
			t.Fatalf("%s: %s", tt.name, r.stderr)
		}
		r := command(t, time.Minute, dir, filepath.Join(tree, "scripts/version"))
		if !regexp.MustCompile(tt.want).MatchString(strings.TrimSpace(r.stdout)) {
			t.Errorf("%s: %q, %q, want %s", tt.name, r.stdout, r.stderr, tt.want)
		}
		versions[tt.name] = strings.TrimSpace(r.stdout)
	}
	for _, pair := range [][2]string{{"no tag", "release"}, {"release", "after it"},
		{"no tag", "a tag of another kind"}} {
		c := exec.Command("dpkg", "--compare-versions", versions[pair[0]], "lt", versions[pair[1]])
		if err := c.Run(); err != nil {
			t.Errorf("for Debian %q isn't before %q: %v", versions[pair[0]], versions[pair[1]], err)
		}
	}
}

// TestBinaryIsReproducible: the host's program has its version, and no path of the place where it
// was built.
func TestBinaryIsReproducible(t *testing.T) {
	if testing.Short() {
		skip(t, "-short: bin/paracuda may be missing")
	}
	r := command(t, time.Minute, root, paracuda, "version")
	next := strings.TrimSpace(string(read(t, "VERSION")))
	if !strings.HasPrefix(r.stdout, "paracuda "+next) {
		t.Errorf("the program says %q, want the tree's version, %s", r.stdout, next)
	}
	place, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(read(t, "bin/paracuda"), []byte(place+"/")) {
		t.Errorf("bin/paracuda names %s", place)
	}
}
