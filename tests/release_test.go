// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRelease makes a release twice, in two folders, and compares the files. It takes minutes.
func TestRelease(t *testing.T) {
	needsNight(t, "TestHostPackage, TestGuestMaterials and TestVersion look at its parts")
	for _, need := range []string{"dh", "git", "xz"} {
		if _, err := exec.LookPath(need); err != nil {
			skip(t, "a release is made with %s: %v", need, err)
		}
	}
	if r := command(t, time.Minute, root, "git", "rev-parse", "--show-toplevel"); r.exit != 0 ||
		strings.TrimSpace(r.stdout) != root {
		skip(t, "this is no clone of the repository")
	}
	t.Parallel()
	progress(t)
	first, second := makeRelease(t), makeRelease(t)
	sums := string(readFile(t, filepath.Join(first, "SHA256SUMS")))
	if other := string(readFile(t, filepath.Join(second, "SHA256SUMS"))); other != sums {
		t.Errorf("the second release differs from the first:\n%s\n%s", sums, other)
	}
	version := strings.TrimSpace(command(t, time.Minute, root, "scripts/version").stdout)
	version = strings.TrimSuffix(strings.TrimSuffix(version, ".dirty"), "+dirty")
	for _, name := range []string{"paracuda-V.tar.xz", "paracuda-V-linux-amd64.tar.xz",
		"paracuda-V.cdx.json", "paracuda-guest-V.cdx.json",
		"paracuda-host_V_amd64.deb", "paracuda-guest_V_amd64.deb"} {
		if !strings.Contains(sums, "  "+strings.ReplaceAll(name, "V", version)+"\n") {
			t.Errorf("the release lacks %s:\n%s", name, sums)
		}
	}
	if strings.Count(sums, "\n") != 6 {
		t.Errorf("the release has %d files, want 6:\n%s", strings.Count(sums, "\n"), sums)
	}
	r := command(t, time.Minute, first, "sha256sum", "--quiet", "-c", "SHA256SUMS")
	if r.exit != 0 {
		t.Errorf("sha256sum -c: exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
	}
	checkMaterials(t, first, archived(t, first))
	checkGuestMaterials(t, one(t, first, "guest-"+version+".cdx.json"),
		one(t, first, "guest_"+version+"_amd64.deb"))
}

// TestReleaseHasItsChanges: CHANGELOG.md has a section for each version. No release is made of a
// tag whose version has none.
func TestReleaseHasItsChanges(t *testing.T) {
	heading := regexp.MustCompile(`^(Unreleased|\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d)$`)
	for line := range strings.Lines(string(read(t, "CHANGELOG.md"))) {
		if h, is := strings.CutPrefix(line, "## "); is &&
			!heading.MatchString(strings.TrimSpace(h)) {
			t.Errorf("CHANGELOG.md: a section %q, want VERSION - DATE or Unreleased", h)
		}
	}
	clone := filepath.Join(t.TempDir(), "clone")
	for _, line := range [][]string{{"git", "clone", "-q", "--shared", root, clone},
		{"git", "-C", clone, "tag", "v99.8.7"}} {
		if r := command(t, time.Minute, root, line...); r.exit != 0 {
			skip(t, "this is no clone of the repository: %s", r.stderr)
		}
	}
	for _, file := range []string{"scripts/release", "scripts/lib.sh"} { // with uncommitted changes
		if r := command(t, time.Minute, root, "cp", file, filepath.Join(clone, file)); r.exit != 0 {
			t.Fatal(r.stderr)
		}
	}
	r := command(t, time.Minute, clone, "scripts/release", filepath.Join(clone, "out"))
	if r.exit == 0 || !strings.Contains(r.stderr, `CHANGELOG.md has no section "## 99.8.7"`) {
		t.Errorf("a tag without a section: exit code %d, %q, want a refusal", r.exit, r.stderr)
	}
}

func makeRelease(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "release")
	if r := command(t, 15*time.Minute, root, "scripts/release", dir); r.exit != 0 {
		t.Fatalf("exit code %d:%s", r.exit, tail(r.stderr))
	}
	return dir
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// one is a release's only file whose name ends with that.
func one(t *testing.T, dir, end string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+end))
	if err != nil || len(files) != 1 {
		t.Fatalf("files *%s: %v, %v, want one", end, files, err)
	}
	return files[0]
}

// archived unpacks a release's program, and checks what it says as its version.
func archived(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	archive := one(t, dir, "-linux-amd64.tar.xz")
	if r := command(t, time.Minute, root, "tar", "-C", to, "-xf", archive); r.exit != 0 {
		t.Fatal(r.stderr)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), "paracuda-"),
		"-linux-amd64.tar.xz")
	program := filepath.Join(to, "usr/local/bin/paracuda")
	r := command(t, time.Minute, root, program, "version")
	if r.stdout != "paracuda "+version+"\n" {
		t.Errorf("the program says %q, %q, want the version %s", r.stdout, r.stderr, version)
	}
	return program
}

// checkMaterials compares the bill of materials with the modules that Go finds in the program.
func checkMaterials(t *testing.T, dir, program string) {
	t.Helper()
	var bill struct {
		BomFormat  string
		Components []struct{ Name, Version string }
	}
	file := one(t, dir, "paracuda-[0-9]*.cdx.json")
	if err := json.Unmarshal(readFile(t, file), &bill); err != nil {
		t.Fatal(err)
	}
	var has []string
	for _, c := range bill.Components {
		if c.Name != "std" {
			has = append(has, c.Name+" "+c.Version)
		}
	}
	r := command(t, time.Minute, root, "go", "version", "-m", program)
	var wants []string
	for _, m := range regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`).FindAllStringSubmatch(
		r.stdout, -1) {
		wants = append(wants, m[1]+" "+m[2])
	}
	slices.Sort(has)
	slices.Sort(wants)
	if bill.BomFormat != "CycloneDX" || len(wants) == 0 || !slices.Equal(has, wants) {
		t.Errorf("%s: %q, want %q", bill.BomFormat, has, wants)
	}
}

// checkGuestMaterials compares the guest package's bill of materials with its files.
func checkGuestMaterials(t *testing.T, bill, deb string) {
	t.Helper()
	var b struct {
		BomFormat  string
		Components []struct {
			Type, Name string
			Hashes     []struct{ Content string }
		}
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	if err := json.Unmarshal(readFile(t, bill), &b); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if r := command(t, time.Minute, root, "dpkg-deb", "-x", deb, dir); r.exit != 0 {
		t.Fatal(r.stderr)
	}
	r := command(t, time.Minute, dir, "sh", "-c",
		"find usr -type f -not -path 'usr/share/*' | LC_ALL=C sort | xargs sha256sum")
	var has strings.Builder
	libraries := map[string]bool{}
	for _, c := range b.Components {
		if c.Type == "file" && len(c.Hashes) == 1 {
			has.WriteString(c.Hashes[0].Content + "  " + c.Name + "\n")
		}
		libraries[c.Name] = true
	}
	if b.BomFormat != "CycloneDX" || r.stdout == "" || has.String() != r.stdout {
		t.Errorf("%s: %q, want %q", b.BomFormat, has.String(), r.stdout)
	}
	linked := 0
	for _, d := range b.Dependencies {
		for _, on := range d.DependsOn {
			if linked++; !libraries[on] || !libraries[d.Ref] {
				t.Errorf("%s needs %s: one of them isn't listed", d.Ref, on)
			}
		}
	}
	if linked < 6 || !libraries["libc.so.6"] {
		t.Errorf("%d dependencies, want at least 6, and libc.so.6: %v", linked, b.Dependencies)
	}
}

// TestGuestMaterials checks the bill of materials of a guest package that is built now.
func TestGuestMaterials(t *testing.T) {
	deb := guestPackage(t)
	r := command(t, time.Minute, root, "guestdriver/packaging/materials", deb)
	bill := filepath.Join(t.TempDir(), "bill.json")
	if err := os.WriteFile(bill, []byte(r.stdout), 0o644); err != nil || r.exit != 0 {
		t.Fatalf("exit code %d, %v: %s", r.exit, err, r.stderr)
	}
	checkGuestMaterials(t, bill, deb)
}
