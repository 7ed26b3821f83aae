// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// guestPackage builds the guest package, and returns its file.
func guestPackage(t *testing.T) string {
	t.Helper()
	for _, need := range []string{"dpkg-deb", "objdump"} {
		if _, err := exec.LookPath(need); err != nil {
			skip(t, "the guest package is built with %s: %v", need, err)
		}
	}
	for _, file := range []string{"lib/libcuda.so.1", "bin/paracuda-doctor", "bin/paracuda-cdi",
		"lib/paracuda/nvidia-smi"} {
		if _, err := os.Stat(filepath.Join(root, "build/guest", file)); err != nil {
			skip(t, "run make guest first: %v", err)
		}
	}
	r := command(t, time.Minute, root, "guestdriver/packaging/build")
	file, made := strings.CutPrefix(strings.TrimSpace(r.stderr), "made ")
	if r.exit != 0 || !made {
		t.Fatalf("exit code %d:%s", r.exit, tail(r.stderr))
	}
	return filepath.Join(root, file)
}

// TestLintian runs lintian on the guest package.
func TestLintian(t *testing.T) {
	checkPackage(t, guestPackage(t))
}

// runningKernel is the kernel under which the package is installed.
const runningKernel = "6.1.0-50-cloud-amd64"

// fakeTools are the programs that the package's scripts call. The driver counts as loaded while
// sys/module/paracuda exists.
var fakeTools = map[string]string{
	"uname":    "echo " + runningKernel,
	"udevadm":  "exit 1",
	"ischroot": "[ -e \"$DPKG_ROOT/chroot\" ]",
	"modinfo":  "echo NEW",
	"paracuda-cdi": `
[ ! -e "$DPKG_ROOT/no-gpu" ] || exit 1
mkdir -p "${1%/*}" && echo "{}" >"$1"`,
	"dkms": `
case "$1" in
status)
	for k in "$DPKG_ROOT"/dkms/*; do
		[ -e "$k" ] && echo "paracuda/0.1.0, ${k##*/}, x86_64: installed"
	done | grep -e "${7:-}" ;;
install) if [ -e "$DPKG_ROOT/broken/$7" ]; then exit 10; else mkdir -p "$DPKG_ROOT/dkms/$7"; fi ;;
remove) rm -rf "$DPKG_ROOT/dkms" ;;
esac`,
	"modprobe": `
loaded=$DPKG_ROOT/sys/module/paracuda
case "$*" in
"-q -r paracuda") [ ! -e "$DPKG_ROOT/busy" ] || exit 1; rm -rf "$loaded" ;;
paracuda) mkdir -p "$loaded"; echo NEW >"$loaded/srcversion" ;;
esac`,
}

// aSystem is a folder that the package's scripts take for a system, with fake programs.
type aSystem struct {
	t              *testing.T
	root, programs string
	scripts        string // the folder of the package's scripts
}

func newSystem(t *testing.T, scripts string) *aSystem {
	s := &aSystem{t: t, root: t.TempDir(), programs: t.TempDir(), scripts: scripts}
	s.fake(fakeTools)
	s.put("dev/null", "usr/bin/")
	return s
}

// fake makes programs with these texts. Each notes its calls.
func (s *aSystem) fake(programs map[string]string) {
	for name, text := range programs {
		script := "#!/bin/sh\necho \"" + name + " $*\" >>\"$DPKG_ROOT/calls\"\n" + text + "\n"
		if err := os.WriteFile(filepath.Join(s.programs, name), []byte(script), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
}

// put makes files and folders: NAME=TEXT is a file with that text, NAME an empty one, NAME/ a
// folder.
func (s *aSystem) put(names ...string) {
	for _, name := range names {
		name, text, _ := strings.Cut(name, "=")
		path := filepath.Join(s.root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *aSystem) has(name string) bool {
	_, err := os.Lstat(filepath.Join(s.root, name))
	return err == nil
}

// lacks removes a program.
func (s *aSystem) lacks(program string) {
	if err := os.Remove(filepath.Join(s.programs, program)); err != nil {
		s.t.Fatal(err)
	}
}

// run runs one of the package's scripts.
func (s *aSystem) run(script string, args ...string) result {
	s.t.Helper()
	return command(s.t, time.Minute, root, append([]string{"env", "DPKG_ROOT=" + s.root,
		"PATH=" + s.programs + ":/usr/bin:/bin", filepath.Join(s.scripts, script)}, args...)...)
}

// calls are the calls of programs that begin with prefix.
func (s *aSystem) calls(prefix string) string {
	text, _ := os.ReadFile(filepath.Join(s.root, "calls"))
	lines := strings.Split(string(text), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return !strings.HasPrefix(l, prefix) })
	return strings.Join(lines, "\n")
}

// control unpacks the package's scripts.
func control(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "control")
	if r := command(t, time.Minute, root, "dpkg-deb", "-e", guestPackage(t), dir); r.exit != 0 {
		t.Fatal(r.stderr)
	}
	return dir
}

const (
	kernelDir  = "lib/modules/" + runningKernel
	otherDir   = "lib/modules/6.1.0-50-amd64"
	inUse      = "sys/module/paracuda/srcversion=OLD"
	headersFix = "paracuda-guest:     apt-get install linux-headers-" + runningKernel + "\n"
	dkmsFix    = "paracuda-guest:     apt-get install dkms linux-headers-" + runningKernel + "\n"
	packed     = "/extra/paracuda/version="
)

// TestPackageIsConfigured configures the package in many kinds of systems.
func TestPackageIsConfigured(t *testing.T) {
	scripts := control(t)
	version := strings.TrimSpace(command(t, time.Minute, root, "scripts/version").stdout)
	for name, c := range map[string]struct {
		system []string
		noDKMS bool
		exit   int
		says   string // empty: nothing
		built  string // for this kernel, if any
		loaded bool
		cdi    bool // the file for container engines is written
	}{
		"headers of another kernel": {system: []string{kernelDir + "/kernel/",
			otherDir + "/build/"}, exit: 1, says: headersFix},
		"other kernels, too": {system: []string{kernelDir + "/kernel/", otherDir + "/kernel/",
			otherDir + "/build/"},
			exit: 1, says: headersFix, built: "6.1.0-50-amd64"},
		"headers": {system: []string{kernelDir + "/kernel/", kernelDir + "/build/"},
			built: runningKernel, loaded: true},
		"does not build": {system: []string{kernelDir + "/kernel/", kernelDir + "/build/",
			"broken/" + runningKernel},
			exit: 1, says: "does not build for kernel " + runningKernel + ": see make.log"},
		"does not build for another": {system: []string{kernelDir + "/kernel/",
			kernelDir + "/build/", otherDir + "/kernel/",
			otherDir + "/build/", "broken/6.1.0-50-amd64"}, built: runningKernel, loaded: true,
			says: "for kernel 6.1.0-50-amd64: see make.log"},
		"old driver, unused": {system: []string{kernelDir + "/kernel/", kernelDir + "/build/",
			inUse}, built: runningKernel, loaded: true},
		"old driver, in use": {system: []string{kernelDir + "/kernel/", kernelDir + "/build/",
			inUse, "busy"}, built: runningKernel, loaded: true,
			says: "paracuda-guest:     modprobe -r paracuda && modprobe paracuda\n"},
		"same driver, in use": {system: []string{kernelDir + "/kernel/", kernelDir + "/build/",
			"sys/module/paracuda/srcversion=NEW", "busy"},
			built: runningKernel, loaded: true},
		"GPU": {system: []string{kernelDir + "/kernel/", kernelDir + "/build/", "dev/paracuda"},
			built: runningKernel, loaded: true, cdi: true},
		"GPU that doesn't work": {system: []string{kernelDir + "/kernel/", kernelDir + "/build/",
			"dev/paracuda", "no-gpu"}, built: runningKernel, loaded: true,
			says: "containers do not have the GPU by name"},
		"packed": {system: []string{kernelDir + "/kernel/", kernelDir + "/build/",
			kernelDir + packed + version + "\n"}, loaded: true},
		"packed, no DKMS": {system: []string{kernelDir + "/kernel/",
			kernelDir + packed + version + "\n", inUse}, noDKMS: true, loaded: true},
		"packed of another version": {system: []string{kernelDir + "/kernel/",
			kernelDir + "/build/", kernelDir + packed + "0.0.1\n"},
			built: runningKernel, loaded: true},
		"packed for another": {system: []string{kernelDir + "/kernel/", kernelDir + "/build/",
			otherDir + packed + version + "\n", otherDir + "/kernel/", otherDir + "/build/"},
			built: runningKernel, loaded: true},
		"packed for another, no DKMS": {system: []string{kernelDir + "/kernel/",
			otherDir + packed + version + "\n", otherDir + "/kernel/"},
			noDKMS: true, exit: 1, says: dkmsFix},
		"packed in a chroot": {system: []string{otherDir + packed + version + "\n",
			otherDir + "/kernel/", "chroot"}, noDKMS: true,
			says: "will be loaded when this system boots"},
		"container": {system: []string{"lib/"}, says: "will be loaded when this system boots"},
		"chroot": {system: []string{kernelDir + "/kernel/", kernelDir + "/build/", "chroot"},
			built: runningKernel,
			says:  "will be loaded when this system boots"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, scripts)
			s.put(c.system...)
			if c.noDKMS {
				s.lacks("dkms")
			}
			r := s.run("postinst", "configure")
			if r.exit != c.exit || !strings.Contains(r.stderr, c.says) ||
				c.says == "" && r.stderr != "" {
				t.Errorf("exit code %d, and it says %q, want %d and %q", r.exit, r.stderr, c.exit,
					c.says)
			}
			built, _ := os.ReadDir(filepath.Join(s.root, "dkms"))
			if len(built) > 1 || (len(built) == 1) != (c.built != "") ||
				c.built != "" && built[0].Name() != c.built {
				t.Errorf("built for %v, want %q:\n%s", built, c.built, s.calls("dkms"))
			}
			if s.has("sys/module/paracuda") != c.loaded {
				t.Errorf("loaded: %v, want %v:\n%s", !c.loaded, c.loaded, s.calls("mod"))
			}
			if s.has("etc/cdi/paracuda.json") != c.cdi {
				t.Errorf("etc/cdi/paracuda.json is there: %v, want %v:\n%s", !c.cdi, c.cdi,
					s.calls("paracuda-cdi"))
			}
			version, _ := os.ReadFile(filepath.Join(s.root, "sys/module/paracuda/srcversion"))
			if old := strings.Contains(name, "old driver, in use"); c.loaded &&
				(string(version) == "OLD") != old {
				t.Errorf("the loaded driver is %q, want the old one: %v", version, old)
			}
		})
	}
}

// TestPackageOffersNvidiaSMI: our nvidia-smi is in PATH if there is no other. Debian's own takes
// its place when it is installed, until it is removed.
func TestPackageOffersNvidiaSMI(t *testing.T) {
	const smi, ours = "usr/bin/nvidia-smi", "../lib/paracuda/nvidia-smi"
	scripts := control(t)
	s := newSystem(t, scripts)
	s.put("lib/", "usr/lib/paracuda/nvidia-smi")
	is := func(when, want string) {
		t.Helper()
		if got, _ := os.Readlink(filepath.Join(s.root, smi)); got != want {
			t.Errorf("%s: nvidia-smi is %q, want %q", when, got, want)
		}
	}
	run := func(script, argument string) {
		t.Helper()
		if r := s.run(script, argument); r.exit != 0 {
			t.Errorf("%s %s: exit code %d: %s", script, argument, r.exit, r.stderr)
		}
	}
	run("postinst", "configure")
	is("installed", ours)
	run("prerm", "upgrade")
	is("upgraded", ours)
	// Debian's is a link of update-alternatives.
	const theirs = "../../etc/alternatives/nvidia--nvidia-smi"
	file := filepath.Join(s.root, smi)
	s.put("etc/alternatives/nvidia--nvidia-smi")
	if err := errors.Join(os.Remove(file), os.Symlink(theirs, file)); err != nil {
		t.Fatal(err)
	}
	run("postinst", "triggered")
	is("beside Debian's", theirs)
	run("prerm", "remove")
	is("ours removed", theirs)
	if err := os.Remove(filepath.Join(s.root, "etc/alternatives/nvidia--nvidia-smi")); err != nil {
		t.Fatal(err)
	}
	run("postinst", "triggered")
	is("Debian's removed", ours)
	run("prerm", "remove")
	is("both removed", "")
}

// TestPackageIsRemoved removes the package, upgrades it, and removes it while a program uses the
// driver.
func TestPackageIsRemoved(t *testing.T) {
	if os.Getuid() != 0 {
		skip(t, "only root can make device nodes")
	}
	scripts := control(t)
	for name, c := range map[string]struct {
		system   []string
		argument string
		noDKMS   bool
		nodes    bool // the device nodes stay
		says     string
	}{
		"removed":  {argument: "remove"},
		"no DKMS":  {argument: "remove", noDKMS: true},
		"upgraded": {argument: "upgrade", nodes: true},
		"in use": {argument: "remove", system: []string{"busy"}, nodes: true,
			says: "stays loaded until the next boot"},
		"nvidia": {argument: "remove", system: []string{"proc/driver/nvidia/"}, nodes: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, scripts)
			s.put(append(c.system, inUse, "etc/cdi/paracuda.json", "etc/cdi/other.json")...)
			if c.noDKMS {
				s.lacks("dkms")
			} else {
				s.put("dkms/" + runningKernel + "/")
			}
			for node, major := range map[string]int{"dev/nvidia0": 195, "dev/nvidiactl": 195,
				"dev/nvidia1": 195} {
				if err := syscall.Mknod(filepath.Join(s.root, node), syscall.S_IFCHR|0o666,
					major<<8); err != nil {
					skip(t, "no device nodes can be made here: %v", err)
				}
			}
			r := s.run("prerm", c.argument)
			if r.exit != 0 || !strings.Contains(r.stderr, c.says) ||
				c.says == "" && r.stderr != "" {
				t.Errorf("exit code %d, and it says %q, want 0 and %q", r.exit, r.stderr, c.says)
			}
			if s.has("dev/nvidia0") != c.nodes || s.has("dev/nvidiactl") != c.nodes ||
				!s.has("dev/nvidia1") {
				t.Errorf("nodes that are left: %v, %v, %v, want %v, %v, true", s.has("dev/nvidia0"),
					s.has("dev/nvidiactl"), s.has("dev/nvidia1"), c.nodes, c.nodes)
			}
			if s.has("etc/cdi/paracuda.json") != (c.argument == "upgrade") ||
				!s.has("etc/cdi/other.json") {
				t.Errorf("etc/cdi has paracuda.json: %v, other.json: %v, want it after an upgrade "+
					"only, and the other one always", s.has("etc/cdi/paracuda.json"),
					s.has("etc/cdi/other.json"))
			}
			if s.has("dkms") || s.has("sys/module/paracuda") != s.has("busy") {
				t.Errorf("the driver is in DKMS: %v, want no; loaded: %v, want %v:\n%s",
					s.has("dkms"), s.has("sys/module/paracuda"), s.has("busy"), s.calls(""))
			}
		})
	}
}
