// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// packTools are the programs that paracuda-pack-modules calls. DKMS has built the driver for two
// kernels, one of which comes from a package.
var packTools = map[string]string{
	"dkms": `
echo "paracuda/1.2~3, 6.12.1+deb13-cloud-amd64, x86_64: installed"
echo "paracuda/1.2~3, 6.9.0_Own, x86_64: installed (Differences)"
echo "paracuda/1.2~3, 6.1.0-7-amd64, x86_64: built"`,
	"modinfo": `
case "$*" in
*"-n paracuda") echo "$DPKG_ROOT/built/paracuda.ko" ;;
"-F signer "*) [ ! -e "$DPKG_ROOT/signed" ] || echo "DKMS module signing key" ;;
esac`,
	"dpkg-query": `
case "$*" in
"-W -f \${Version} paracuda-guest") echo "1.2~3" ;;
"-W -f \${Maintainer} paracuda-guest") echo "Someone <someone@example.com>" ;;
"-S /boot/vmlinuz-6.12.1+deb13-cloud-amd64")
	echo "linux-image-6.12.1+deb13-cloud-amd64: /boot/vmlinuz-6.12.1+deb13-cloud-amd64" ;;
*) exit 1 ;;
esac`,
}

// packer makes a system in which DKMS has built the driver.
func packer(t *testing.T) *aSystem {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		skip(t, "no dpkg-deb here: %v", err)
	}
	s := &aSystem{t: t, root: t.TempDir(), programs: t.TempDir(),
		scripts: filepath.Join(root, "guestdriver/packaging")}
	s.fake(packTools)
	s.put("built/paracuda.ko=a driver", "var/lib/dkms/mok.pub=a key", "out/")
	return s
}

// pack makes packages, and returns their files.
func (s *aSystem) pack(args ...string) []string {
	s.t.Helper()
	out := filepath.Join(s.root, "out")
	r := s.run("pack-modules", append([]string{"--output", out}, args...)...)
	if r.exit != 0 || r.stderr != "" {
		s.t.Fatalf("exit code %d:%s", r.exit, tail(r.stderr))
	}
	files := strings.Fields(r.stdout)
	for i, file := range files {
		files[i] = filepath.Base(file)
	}
	return files
}

// TestPackModules packs the drivers for all kernels that have one, or for those that are named.
func TestPackModules(t *testing.T) {
	s := packer(t)
	cloud := "paracuda-modules-6.12.1+deb13-cloud-amd64_1.2~3_amd64.deb"
	own := "paracuda-modules-6.9.0-own_1.2~3_amd64.deb"
	if made := s.pack(); !slices.Equal(made, []string{cloud, own}) {
		t.Errorf("it made %q, want %q and %q", made, cloud, own)
	}
	if made := s.pack("6.9.0_Own"); !slices.Equal(made, []string{own}) {
		t.Errorf("it made %q, want %q", made, own)
	}
	deb := filepath.Join(s.root, "out", cloud)
	for field, want := range map[string]string{
		"Provides":     "paracuda-modules (= 1.2~3)",
		"Depends":      "kmod, linux-image-6.12.1+deb13-cloud-amd64",
		"Version":      "1.2~3",
		"Architecture": "amd64",
	} {
		if r := command(t, time.Minute, root, "dpkg-deb", "-f", deb, field); r.stdout != want+"\n" {
			t.Errorf("%s: %q, want %q", field, r.stdout, want)
		}
	}
	other := filepath.Join(s.root, "out", own)
	r := command(t, time.Minute, root, "dpkg-deb", "-f", other, "Depends")
	if r.stdout != "kmod\n" {
		t.Errorf("a kernel from no package: Depends is %q, want kmod", r.stdout)
	}
	files := unpacked(t, deb)
	const dir = "usr/lib/modules/6.12.1+deb13-cloud-amd64/extra/paracuda/"
	for name, want := range map[string]string{dir + "paracuda.ko": "a driver",
		dir + "version": "1.2~3\n"} {
		if got, err := os.ReadFile(filepath.Join(files, name)); string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(files, dir, "mok.pub")); err == nil {
		t.Error("a driver without a signature has a key")
	}
	checkPackage(t, deb)
}

func unpacked(t *testing.T, deb string) string {
	t.Helper()
	dir := t.TempDir()
	if r := command(t, time.Minute, root, "dpkg-deb", "-x", deb, dir); r.exit != 0 {
		t.Fatal(r.stderr)
	}
	return dir
}

// TestPackSignedModules: a package has the certificate of the key by which its driver was signed.
func TestPackSignedModules(t *testing.T) {
	const kernel = "6.12.1+deb13-cloud-amd64"
	for name, c := range map[string]struct{ conf, want string }{
		"DKMS's own": {"etc/dkms/framework.conf=# nothing", "a key"},
		"another": {"etc/dkms/framework.conf.d/key.conf=mok_certificate=/keys/$kernelver.pub\n",
			"the owner's"},
	} {
		t.Run(name, func(t *testing.T) {
			s := packer(t)
			s.put("signed", c.conf, "keys/"+kernel+".pub=the owner's")
			file := s.pack(kernel)[0]
			files := unpacked(t, filepath.Join(s.root, "out", file))
			key, err := os.ReadFile(filepath.Join(files, "usr/lib/modules", kernel,
				"extra/paracuda/mok.pub"))
			if string(key) != c.want {
				t.Errorf("its key is %q, %v, want %q", key, err, c.want)
			}
		})
	}
}

// TestPackModulesFails: there is nothing to pack, or the command line is wrong.
func TestPackModulesFails(t *testing.T) {
	for name, c := range map[string]struct {
		tools map[string]string
		args  []string
		exit  int
		says  string
	}{
		"no kernel of that name": {args: []string{"6.1.0-7-amd64"}, exit: 1,
			says: "no driver of version 1.2~3 for kernel 6.1.0-7-amd64, but for 6.12.1"},
		"nothing built": {tools: map[string]string{"dkms": ""}, exit: 1,
			says: "install a kernel's headers"},
		"not installed": {tools: map[string]string{"dpkg-query": "exit 1"}, exit: 1,
			says: "paracuda-guest isn't installed"},
		"no driver": {tools: map[string]string{"modinfo": "echo /nowhere"}, exit: 1,
			says: "/nowhere"},
		"bad option": {args: []string{"--fly"}, exit: 2, says: "usage: "},
		"no value":   {args: []string{"--output"}, exit: 2, says: "usage: "},
	} {
		t.Run(name, func(t *testing.T) {
			s := packer(t)
			s.fake(c.tools)
			r := s.run("pack-modules", append([]string{}, c.args...)...)
			if r.exit != c.exit || r.stdout != "" || !strings.Contains(r.stderr, c.says) {
				t.Errorf("exit code %d, output %q, %q, want %d, none, %q", r.exit, r.stdout,
					r.stderr, c.exit, c.says)
			}
		})
	}
	s := packer(t)
	s.lacks("dkms")
	r := s.run("pack-modules")
	if r.exit != 1 || !strings.Contains(r.stderr, "apt-get install dkms") {
		t.Errorf("without DKMS: exit code %d, %q, want 1 and what to install", r.exit, r.stderr)
	}
}
