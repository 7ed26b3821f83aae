// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hostPackage builds the host package, and returns its file.
func hostPackage(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		skip(t, "-short: bin/paracuda may be missing")
	}
	if _, err := exec.LookPath("dh"); err != nil {
		skip(t, "there is no debhelper: run scripts/apt-deps")
	}
	r := command(t, 5*time.Minute, root, "packaging/build")
	file, made := strings.CutPrefix(strings.TrimSpace(r.stderr), "made ")
	if r.exit != 0 || !made {
		t.Fatalf("exit code %d:%s", r.exit, tail(r.stderr))
	}
	return filepath.Join(root, file)
}

// TestHostPackage checks the files of the host package, and runs lintian.
func TestHostPackage(t *testing.T) {
	t.Parallel()
	file := hostPackage(t)
	list := command(t, time.Minute, root, "dpkg-deb", "-c", file).stdout
	for _, want := range []string{
		"usr/bin/paracuda", "usr/lib/systemd/system/paracuda@.service",
		"usr/lib/systemd/system/paracuda@.socket",
		"usr/lib/systemd/system/paracuda-arbiter.service",
		"usr/lib/sysusers.d/paracuda-host.conf", "usr/share/man/man1/paracuda-device.1.gz",
		"usr/share/bash-completion/completions/paracuda", "etc/paracuda/vms/",
		"usr/share/zsh/vendor-completions/_paracuda", "etc/paracuda/arbiter.toml",
		"etc/apparmor.d/abstractions/libvirt-qemu.d/paracuda",
		"etc/default/paracuda-arbiter",
		"usr/share/doc/paracuda-host/examples/vm.conf",
		"usr/share/doc/paracuda-host/examples/paracuda.rules.yml",
		"usr/share/doc/paracuda-host/examples/grafana-paracuda.json",
		"usr/share/doc/paracuda-host/third-party.txt.gz",
	} {
		if !strings.Contains(list, " ./"+want+"\n") {
			t.Errorf("the package lacks %s", want)
		}
	}
	// There libvirt would find it, and take the device for one of a display.
	if strings.Contains(list, "qemu/vhost-user") {
		t.Error("the description is where libvirt looks for it")
	}
	checkPackage(t, file)
	// A host may be a VM, and so have the guest package, too.
	t.Run("beside the guest package", func(t *testing.T) {
		theirs := filesOf(t, guestPackage(t))
		for _, name := range filesOf(t, file) {
			if slices.Contains(theirs, name) {
				t.Errorf("both packages have %s", name)
			}
		}
	})
}

// installed does what `make install` does, in a folder, and returns the folder.
func installed(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		skip(t, "-short: bin/paracuda may be missing")
	}
	dir := t.TempDir()
	r := command(t, time.Minute, root, "env", "PREFIX="+dir+"/usr", "SYSCONFDIR="+dir+"/etc",
		"DESTDIR=", "scripts/install")
	if r.exit != 0 {
		t.Fatalf("exit code %d:%s", r.exit, tail(r.stderr))
	}
	return dir
}

// TestInstall: a file that an operator has changed stays as it is. The device's description is
// installed as an example, in the form that QEMU's schema allows.
func TestInstall(t *testing.T) {
	dir := installed(t)
	config := filepath.Join(dir, "etc/paracuda/arbiter.toml")
	if err := os.WriteFile(config, []byte("# mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := command(t, time.Minute, root, "env", "PREFIX="+dir+"/usr", "SYSCONFDIR="+dir+"/etc",
		"DESTDIR=", "scripts/install"); r.exit != 0 {
		t.Fatal(r.stderr)
	}
	if text, err := os.ReadFile(config); err != nil || string(text) != "# mine\n" {
		t.Errorf("the operator's configuration is %q, %v, want it unchanged", text, err)
	}
	var described map[string]any
	text, err := os.ReadFile(filepath.Join(dir, "usr/share/doc/paracuda/examples/90-paracuda.json"))
	if err == nil {
		err = json.Unmarshal(text, &described)
	}
	if err != nil {
		t.Fatal(err)
	}
	if described["binary"] != dir+"/usr/libexec/paracuda-device" || len(described) != 4 ||
		described["tags"] == nil || described["description"] == nil {
		t.Errorf("the description is %v, want description, type, binary and tags", described)
	}
	if _, err := os.Stat(filepath.Join(dir, "usr/share/qemu")); err == nil {
		t.Error("the description is where libvirt looks for it")
	}
	r := command(t, time.Minute, root, dir+"/usr/libexec/paracuda-device", "--print-capabilities")
	var said map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &said); err != nil || said["type"] != deviceType ||
		len(said) != 2 || said["features"] == nil {
		t.Errorf("--print-capabilities: %q, %v, want features and the type %q", r.stdout, err,
			deviceType)
	}
}

// TestAppArmor has AppArmor's own parser compile the package's rules, in a profile such as libvirt
// makes for a VM. A mistake must be refused.
func TestAppArmor(t *testing.T) {
	parser := cached("apparmor/apparmor_parser")
	if _, err := os.Stat(parser); err != nil {
		skip(t, "no apparmor_parser here: run scripts/fetch-apparmor: %v", err)
	}
	for rule, exit := range map[string]int{"": 0, "  /run/x rwz,\n": 1} {
		profile := filepath.Join(t.TempDir(), "profile")
		text := "profile libvirt-vm {\n  include \"" + root + "/packaging/etc/apparmor\"\n" +
			rule + "}\n"
		if err := os.WriteFile(profile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		// The result goes to standard output instead of to the kernel.
		r := command(t, time.Minute, root, parser, "--skip-kernel-load", "--skip-cache", "--stdout",
			profile)
		if r.exit != exit || exit == 0 && !strings.Contains(r.stdout, "libvirt-vm") {
			t.Errorf("with %q: exit code %d, want %d, %d bytes: %s", rule, r.exit, exit,
				len(r.stdout), r.stderr)
		}
	}
}

// mostExposed is the most exposure of each service that `systemd-analyze security` may find: a
// service without any protection has about 10. systemd 252 finds 2.5 and 2.2, later ones check
// more.
var mostExposed = map[string]float64{"paracuda@vm.service": 3.5, "paracuda-arbiter.service": 3.2}

// TestUnits checks the services with systemd-analyze.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		skip(t, "there is no systemd-analyze: install systemd")
	}
	dir := installed(t)
	units := dir + "/usr/lib/systemd/system"
	r := command(t, time.Minute, root, "env", "SYSTEMD_UNIT_PATH="+units+":", "systemd-analyze",
		"verify", "--man=no", "paracuda-arbiter.service", "paracuda@vm.service",
		"paracuda@vm.socket")
	if said := ofOurs(r.stdout + r.stderr); said != "" {
		t.Errorf("systemd-analyze verify: exit code %d, want no complaints:\n%s", r.exit, said)
	}
	overall := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)
	for unit, most := range mostExposed {
		// A VM's service is an instance of a template.
		file := filepath.Join(t.TempDir(), unit)
		text, err := os.ReadFile(filepath.Join(units, strings.Replace(unit, "@vm", "@", 1)))
		if err == nil {
			err = os.WriteFile(file, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		r := command(t, time.Minute, root, "systemd-analyze", "security", "--offline=true",
			"--no-pager", file)
		found := overall.FindStringSubmatch(r.stdout)
		if found == nil {
			skip(t, "systemd-analyze security can't look at files here: %s", tail(r.stderr))
		}
		if n, err := strconv.ParseFloat(found[1], 64); err != nil || n > most {
			t.Errorf("%s: exposure %s, want at most %v", unit, found[1], most)
		}
	}
}

// ofOurs are the lines about our units: a machine may have others that are wrong.
func ofOurs(text string) string {
	var ours strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, "paracuda") {
			ours.WriteString(line)
		}
	}
	return ours.String()
}
