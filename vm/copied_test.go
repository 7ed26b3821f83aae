// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/qemu"
	"github.com/paracuda/paracuda/vm/template"
)

// ownCache is the assets with a cache of its own, in which there are no templates.
func ownCache(t *testing.T) Assets {
	t.Helper()
	a := FindAssets()
	dir := t.TempDir()
	entries, err := os.ReadDir(a.Cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "booted" {
			continue
		}
		if err := os.Symlink(filepath.Join(a.Cache, e.Name()),
			filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	a.Cache = dir
	return a
}

// only is the one template in a cache.
func only(t *testing.T, a Assets) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(a.Cache, "booted/[0-9a-f]*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the templates are %q, %v", files, err)
	}
	return files[0]
}

// TestCopiesOfOneVM runs copies of one template, which have the host's time, and random numbers
// that differ. Then the template's state is none that QEMU takes.
func TestCopiesOfOneVM(t *testing.T) {
	boots(t)
	t.Setenv(ownQEMU, "")
	var warned string
	c := Config{Kind: QEMU, Assets: ownCache(t), Warn: func(text string) { warned += text },
		Machine: Machine{Accel: TCG, Memory: 512 << 20, CPUs: 1}}
	const script = `cat /proc/sys/kernel/random/boot_id
head -c 16 /dev/urandom | od -An -tx1
date +%s`
	seen := map[string]bool{}
	for range 2 {
		begun := time.Now().Unix()
		lines := strings.Split(strings.TrimSpace(sh(t, c, script).out), "\n")
		if len(lines) != 3 {
			t.Fatalf("it says %q", lines)
		}
		seen[lines[0]], seen[lines[1]] = true, true
		if now := lines[2]; now < fmt.Sprint(begun-1) || now > fmt.Sprint(time.Now().Unix()+1) {
			t.Errorf("its time is %s, not %d", now, begun)
		}
	}
	if len(seen) != 4 {
		t.Errorf("two copies have the same random numbers: %v", seen)
	}
	file := only(t, c.Assets)
	spoil(t, file, 24)
	c.Program.Name = "true"
	_, err := Run(context.Background(), c)
	if err == nil || !strings.Contains(err.Error(), "which is removed: try again") {
		t.Errorf("the error is %v", err)
	}
	if exists(file) || warned != "" {
		t.Errorf("the template is there still, or a warning: %q", warned)
	}
}

// spoil overwrites some bytes.
func spoil(t *testing.T, file string, at int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("nonsense"), at); err != nil {
		t.Fatal(err)
	}
}

// TestBootsWithoutATemplate can't make one, or has one that is damaged.
func TestBootsWithoutATemplate(t *testing.T) {
	t.Setenv(ownQEMU, "")
	dir := t.TempDir()
	spec := qemu.Machine{Memory: 1 << 20, Initrd: filepath.Join(dir, "initrd")}
	write(t, spec.Initrd, "initrd")
	program(t, filepath.Join(dir, "qemu"), "echo no QEMU; exit 1")
	a := Assets{Cache: dir}
	damaged, err := newClone(a, filepath.Join(dir, "qemu"), qemu.OldestCopying, &spec, dir)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "booted", damaged.of), "damaged")
	for _, want := range []string{"damaged", "no QEMU"} {
		var warned string
		c := Config{Assets: a, Machine: Machine{Accel: TCG}, Warn: func(s string) { warned = s }}
		if got := beginAsCopy(context.Background(), &c, filepath.Join(dir, "qemu"),
			qemu.OldestCopying, &spec, dir); got != nil || spec.State != "" {
			t.Errorf("it is a copy of %s", got.of)
		}
		if !strings.Contains(warned, want) || !strings.Contains(warned, "the VM boots itself") {
			t.Errorf("the warning is %q, not of %q", warned, want)
		}
	}
}

func TestWhatIsACopy(t *testing.T) {
	v := qemu.Version{Major: 11}
	for name, c := range map[string]struct {
		change  func(c *Config)
		version qemu.Version
		want    bool
	}{
		"without a device": {func(c *Config) { c.Device.Socket = "" }, v, true},
		"with a device":    {func(*Config) {}, v, true},
		"a device that isn't migrated": {func(c *Config) { c.Device.Carrier = qemu.Generic }, v,
			false},
		"KVM": {func(c *Config) { c.Machine.Accel = KVM }, v, false},
		"an old QEMU": {func(*Config) {}, qemu.Version{Major: 7, Minor: 2},
			false},
		"room for memory":          {func(c *Config) { c.Machine.Most = 1 << 30 }, v, false},
		"a QEMU of the user's own": {func(*Config) { t.Setenv(ownQEMU, "/q") }, v, false},
		"a console":                {func(c *Config) { c.Machine.Console = os.Stderr }, v, false},
		"a kernel that says all":   {func(c *Config) { c.Machine.Verbose = true }, v, false},
	} {
		ordinary := Config{Machine: Machine{Accel: TCG},
			Device: Device{Socket: "/d", Carrier: qemu.FS}}
		t.Setenv(ownQEMU, "")
		c.change(&ordinary)
		if got := ordinary.copies(c.version); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestTemplatesOfTheirOwn has one for each of what makes VMs differ before they have devices.
func TestTemplatesOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	initrd, other := filepath.Join(dir, "initrd"), filepath.Join(dir, "other")
	write(t, initrd, "one")
	write(t, other, "another")
	base := qemu.Machine{Accel: TCG, Memory: 1 << 20, CPUs: 1, Kernel: "/k", Initrd: initrd}
	name := func(version qemu.Version, change func(m *qemu.Machine)) string {
		m := base
		change(&m)
		c, err := newClone(Assets{Cache: dir}, "/q", version, &m, dir)
		if err != nil {
			t.Fatal(err)
		}
		return c.of
	}
	v := qemu.Version{Major: 11}
	first := name(v, func(*qemu.Machine) {})
	if same := name(v, func(m *qemu.Machine) {
		m.QMP, m.Files, m.Devices = "/qmp", []qemu.Files{{}}, []qemu.Device{{Socket: "/d"}}
	}); same != first {
		t.Error("another template for other devices")
	}
	names := map[string]string{first: "nothing",
		name(qemu.Version{Major: 10}, func(*qemu.Machine) {}): "QEMU"}
	for what, change := range map[string]func(m *qemu.Machine){
		"memory":     func(m *qemu.Machine) { m.Memory = 2 << 20 },
		"processors": func(m *qemu.Machine) { m.CPUs = 2 },
		"kernel":     func(m *qemu.Machine) { m.Kernel = "/k2" },
		"initramfs":  func(m *qemu.Machine) { m.Initrd = other },
		"options":    func(m *qemu.Machine) { m.Append = "x" },
	} {
		n := name(v, change)
		if same, seen := names[n]; seen {
			t.Errorf("with another %s it is the template as with another %s", what, same)
		}
		names[n] = what
	}
	if strings.Contains(first, "/") || template.Name() == first {
		t.Errorf("the name is %q", first)
	}
}
