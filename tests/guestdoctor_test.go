// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var guestDoctor = filepath.Join(root, "build/guest/bin/paracuda-doctor")

// finding is what paracuda-doctor says about one check.
type finding struct{ Check, Level, Found, Fix string }

// goodVM has the files of a VM in which nothing is wrong. "->" marks a link and its target.
var goodVM = map[string]string{
	"proc/sys/kernel/osrelease":          "6.1.0\n",
	"sys/bus/virtio/devices/v0/device":   "0x001a\n",
	"sys/bus/virtio/devices/v0/driver":   "->../../drivers/paracuda",
	"sys/bus/virtio/devices/v1/device":   "0x0001\n",
	"sys/module/paracuda/version":        "0\n",
	"sys/module/paracuda/srcversion":     "ABC\n",
	"lib/modules/6.1.0/modules.dep":      "a/x.ko:\nupdates/dkms/paracuda.ko:\n",
	"lib/modules/6.1.0/build/Makefile":   "",
	"usr/sbin/dkms":                      "",
	"dev/paracuda":                       "->/dev/null",
	"dev/nvidia0":                        "",
	"dev/nvidiactl":                      "",
	"programs/modinfo":                   "#!/bin/sh\necho ABC\n",
	"proc/self/ns/pid":                   "->pid:[4026531836]",
	"programs/cat":                       "->/bin/cat",
	"programs/sed":                       "->/bin/sed",
	"programs/grep":                      "->/bin/grep",
	"programs/tail":                      "->/usr/bin/tail",
	"programs/dmesg":                     "#!/bin/sh\nexit 1\n",
	"programs/paracuda-cdi":              "#!/bin/sh\necho new\n",
	"etc/cdi/paracuda.json":              "new\n",
	"programs/nvidia-smi":                "#!/bin/sh\necho 'GPU 0: A GPU'\necho more\n",
	"sys/bus/pci/devices/0:1/vendor":     "0x1af4\n",
	"sys/bus/pci/devices/0:1/device":     "0x105a\n",
	"sys/bus/pci/devices/0:1/driver/new": "",
}

// without marks a file or folder that is missing.
const without = "\x00"

// putVM makes a folder with the files of goodVM, and then the changes.
func putVM(t *testing.T, changes map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) error {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.RemoveAll(path); err != nil || text == without {
			return err
		}
		if to, link := strings.CutPrefix(text, "->"); link {
			return os.Symlink(to, path)
		}
		return os.WriteFile(path, []byte(text), 0o755)
	}
	for _, files := range []map[string]string{goodVM, changes} {
		for name, text := range files {
			if err := put(name, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// needDoctor skips a test where paracuda-doctor hasn't been built.
func needDoctor(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(guestDoctor); err != nil {
		skip(t, "run make guest first: %v", err)
	}
}

// diagnose runs one check in a VM with the files of a folder.
func diagnose(t *testing.T, dir, check string, environment ...string) (f finding, exit int) {
	t.Helper()
	args := append([]string{"/usr/bin/env", "PATH=" + filepath.Join(dir, "programs")},
		environment...)
	r := command(t, time.Minute, root, append(args, guestDoctor, "--root", dir, "--json",
		check)...)
	var said struct {
		Healthy  bool
		Findings []finding
	}
	if err := json.Unmarshal([]byte(r.stdout), &said); err != nil || r.stderr != "" ||
		len(said.Findings) != 1 || said.Healthy != (r.exit == 0) {
		t.Fatalf("exit code %d, %v, standard error %q, want one finding:%s", r.exit, err, r.stderr,
			tail(r.stdout))
	}
	return said.Findings[0], r.exit
}

// packageVersion is the protocol version of the paracuda-doctor that was built.
func packageVersion(t *testing.T) string {
	t.Helper()
	f, _ := diagnose(t, putVM(t, nil), "module")
	_, version, _ := strings.Cut(f.Found, "this package of ")
	if n, err := strconv.Atoi(version); err != nil || n < 1 {
		t.Fatalf("it says %q about a driver of version 0, want its own version", f.Found)
	}
	return version
}

// wantFinding checks one finding. Only what is ok has no fix, and only a problem gives exit code 1.
func wantFinding(t *testing.T, f finding, exit int, level, found, fix string) {
	t.Helper()
	if f.Level != level || !strings.Contains(f.Found, found) || !strings.Contains(f.Fix, fix) ||
		(level == "ok") != (f.Fix == "") || (level == "problem") != (exit == 1) || exit > 1 {
		t.Errorf("%+v, exit code %d, want %s, %q, %q", f, exit, level, found, fix)
	}
}

// TestGuestDoctorFiles breaks one file at a time.
func TestGuestDoctorFiles(t *testing.T) {
	needDoctor(t)
	const (
		driver = "sys/bus/virtio/devices/v0/driver"
		module = "sys/module/paracuda"
		list   = "lib/modules/6.1.0/modules.dep"
		build  = "lib/modules/6.1.0/build"
		spec   = "etc/cdi/paracuda.json"
	)
	type files = map[string]string
	// refused is a VM whose driver refused the device. Its log has other lines before and after
	// that.
	refused := func(why string) files {
		return files{driver: without, "programs/dmesg": "#!/bin/sh\nprintf '%b\\n' " +
			"'[ 0.1] virtio-pci 0:1: v0: older' '[ 2.5] paracuda v0: " + why + "' " +
			"'[ 2.6] paracuda v0: taken over from virtiofs' '[ 3.0] x: other'\n"}
	}
	version := packageVersion(t)
	for _, tt := range []struct {
		name, check       string
		files             files
		level, found, fix string
	}{
		{"good", "device", nil, "ok", "v0 has the driver paracuda", ""},
		{"none", "device", files{"sys/bus/virtio/devices/v0": without}, "problem",
			"no device of Paracuda's", "paracuda attach"},
		{"no virtio-pci", "device", files{"sys/bus/virtio": without,
			"sys/bus/pci/devices/0:1/driver": without}, "problem", "on PCI", "modprobe virtio_pci"},
		{"not loaded", "device", files{driver: without, module: without}, "problem",
			"v0 has no driver", "modprobe paracuda"},
		{"a file system", "device", files{driver: "->../../drivers/virtiofs"}, "problem",
			"no device of Paracuda's: v0, which virtiofs has, lacks tag=paracuda",
			"paracuda attach"},
		{"refused, no log", "device", files{driver: without}, "problem",
			"hasn't taken v0: the kernel's log says why", "dmesg"},
		{"refused, and a file system", "device", files{driver: without,
			"sys/bus/virtio/devices/v2/device": "0x001a\n",
			"sys/bus/virtio/devices/v2/driver": "->../../drivers/virtiofs"}, "problem",
			"hasn't taken v0: the kernel's log says why", "dmesg"},
		{"taken away", "device", refused("/dev/paracuda: 16 channels, arena of 8192 KiB"),
			"problem", "v0 was taken from the driver paracuda",
			"echo v0 >/sys/bus/virtio/drivers/paracuda/bind"},
		{"no queues", "device", refused("device has no request queues: give it some"), "problem",
			"hasn't taken v0: device has no request queues", "num-request-queues=16"},
		{"no configuration", "device", refused("not ours, or QEMU was not told config_size=256"),
			"problem", "not told config_size=256", "config_size=256 (on the host)"},
		{"another version's", "device", refused("device speaks protocol version 9, this driver 1"),
			"problem", "version 9, this driver 1", "apt-get install ./paracuda-guest_"},
		{"no answer", "device", refused("device does not answer"), "problem",
			"hasn't taken v0: device does not answer", "paracuda doctor (on the host)"},
		{"another complaint", "device", refused("device needs \\033 care"), "problem",
			"hasn't taken v0: device needs ? care", "dmesg | grep paracuda"},
		{"good", "module", files{module + "/version": version}, "ok",
			"of protocol version " + version, ""},
		{"another version", "module", nil, "problem",
			"of protocol version 0, this package of " + version, "modprobe -r paracuda"},
		{"no version", "module", files{module + "/version": without}, "problem",
			"version unknown", "modprobe -r paracuda"},
		{"not loaded", "module", files{module: without}, "problem", "not loaded",
			"modprobe paracuda"},
		{"unsigned", "module", files{module: without,
			"sys/module/module/parameters/sig_enforce": "Y\n"}, "problem", "Secure Boot",
			"mokutil --import /var/lib/dkms/mok.pub && reboot"},
		{"not enforced", "module", files{module: without,
			"sys/module/module/parameters/sig_enforce": "N\n",
			"sys/kernel/security/lockdown":             "[none] integrity\n"}, "problem",
			"not loaded", "modprobe paracuda"},
		{"locked down", "module", files{module: without,
			"sys/kernel/security/lockdown": "none [integrity] confidentiality\n"},
			"problem", "Secure Boot", "mokutil --import"},
		{"not built", "module", files{module: without, list: "a/x.ko:\n"}, "problem",
			"no driver for the kernel 6.1.0", "dkms autoinstall -k 6.1.0"},
		{"no headers", "module", files{module: without, list: without, build: without}, "problem",
			"whose headers are missing", "apt-get install linux-headers-6.1.0"},
		{"no DKMS", "module", files{module: without, list: without,
			"usr/sbin/dkms": without}, "problem", "no driver for the kernel 6.1.0",
			"apt-get install dkms linux-headers-6.1.0 && dpkg-reconfigure paracuda-guest"},
		{"packed", "module", files{module: without, list: "extra/paracuda/paracuda.ko.xz:\n",
			"lib/modules/6.1.0/extra/paracuda/mok.pub": "a key",
			"sys/module/module/parameters/sig_enforce": "Y\n"}, "problem", "Secure Boot",
			"mokutil --import /lib/modules/6.1.0/extra/paracuda/mok.pub && reboot"},
		{"good", "installed", nil, "ok", "6.1.0", ""},
		{"not for this kernel", "installed", files{list: "a/x.ko:\n"}, "warning",
			"none after a boot", "dkms autoinstall -k 6.1.0"},
		{"upgraded", "installed", files{"programs/modinfo": "#!/bin/sh\necho NEW\n"}, "warning",
			"another driver is installed", "modprobe -r paracuda"},
		{"good", "headers", nil, "ok", "6.1.0", ""},
		{"none", "headers", files{build: without}, "warning", "missing",
			"apt-get install linux-headers-6.1.0"},
		{"packed", "headers", files{build: without,
			list: "extra/paracuda/paracuda.ko:\n"}, "ok", "none are needed", ""},
		{"good", "node", nil, "ok", "for all users", ""},
		{"container", "node", files{"dev/paracuda": without}, "problem", "is this a container?",
			"podman run --device paracuda.dev/gpu=all"},
		{"no device", "node", files{"dev/paracuda": without, driver: without}, "problem",
			"no /dev/paracuda", "paracuda-doctor device module"},
		{"a file", "node", files{"dev/paracuda": "x"}, "problem", "no device node", "rm "},
		{"another's", "channel", nil, "problem", "isn't Paracuda's", "modprobe -r paracuda"},
		{"none", "channel", files{"dev/paracuda": without}, "problem", "no /dev/paracuda",
			"paracuda-doctor device"},
		{"good", "nvidia-nodes", nil, "ok", "JAX", ""},
		{"none", "nvidia-nodes", files{"dev/nvidiactl": without}, "warning", "JAX", "mknod"},
		{"good", "containers", nil, "ok", "names the GPUs", ""},
		{"in one", "containers", files{spec: without,
			"proc/self/ns/pid": "->pid:[4026532000]"}, "ok", "this is one", ""},
		{"none", "containers", files{spec: without}, "warning", "no /etc/cdi/paracuda.json",
			"paracuda-cdi /etc/cdi/paracuda.json"},
		{"of other GPUs", "containers", files{spec: "old\n"}, "warning", "isn't of the GPUs",
			"paracuda-cdi /etc/cdi/paracuda.json"},
		{"not installed", "containers", files{"programs/paracuda-cdi": without}, "problem",
			"there is no paracuda-cdi", "apt-get install --reinstall paracuda-guest"},
		{"no GPU", "containers", files{
			"programs/paracuda-cdi": "#!/bin/sh\necho no GPU\nexit 1\n"}, "problem", "no GPU",
			"paracuda-doctor library"},
		{"good", "nvidia-smi", nil, "ok", "GPU 0: A GPU", ""},
		{"none", "nvidia-smi", files{"programs/nvidia-smi": without}, "warning", "none",
			"apt-get install nvidia-smi"},
		{"broken", "nvidia-smi", files{
			"programs/nvidia-smi": "#!/bin/sh\nprintf 'no \\033 \"driver\"\\n' >&2\nexit 9\n"},
			"problem", `no ? "driver"`, "paracuda-doctor library"},
		{"mute", "nvidia-smi", files{"programs/nvidia-smi": "#!/bin/sh\nexit 9\n"}, "problem",
			"without a word", "paracuda-doctor library"},
	} {
		t.Run(tt.check+" "+tt.name, func(t *testing.T) {
			f, exit := diagnose(t, putVM(t, tt.files), tt.check)
			wantFinding(t, f, exit, tt.level, tt.found, tt.fix)
		})
	}
}

// TestGuestDoctorModes: the device's node is only for some users. Root gets a warning, another user
// a problem.
func TestGuestDoctorModes(t *testing.T) {
	needDoctor(t)
	dir := putVM(t, map[string]string{"dev/paracuda": without})
	node := filepath.Join(dir, "dev/paracuda")
	if err := syscall.Mknod(node, syscall.S_IFCHR|0o600, 1<<8|3); err != nil {
		skip(t, "no device nodes can be made here: %v", err)
	}
	f, exit := diagnose(t, dir, "node")
	wantFinding(t, f, exit, "warning", "its mode is 0600", "chmod 0666 /dev/paracuda")
	for _, d := range []string{dir, filepath.Dir(dir)} { // they are for their owner alone
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(copyOf(t, guestDoctor, dir), "--root", dir, "node")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, _ := c.CombinedOutput()
	want := "problem  node: no permission for /dev/paracuda\n           fix: chmod 0666 "
	if !strings.HasPrefix(string(out), want) || c.ProcessState.ExitCode() != 1 {
		t.Errorf("exit code %d, %q, want %q", c.ProcessState.ExitCode(), out, want)
	}
}

// copyOf copies a program to a folder, where every user may execute it.
func copyOf(t *testing.T, program, dir string) string {
	t.Helper()
	b, err := os.ReadFile(program)
	to := filepath.Join(dir, filepath.Base(program))
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// compile makes a shared library of C source.
func compile(t *testing.T, dir, name, text string) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		skip(t, "no C compiler: %v", err)
	}
	c := exec.Command("cc", "-shared", "-fPIC", "-w", "-o", filepath.Join(dir, name), "-xc", "-")
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestGuestDoctorChannel: each reason why a process gets no channel has its finding and fix.
func TestGuestDoctorChannel(t *testing.T) {
	needDoctor(t)
	dir := putVM(t, nil)
	compile(t, dir, "driver.so", `#include <errno.h>
#include <stdlib.h>
int ioctl(int fd, unsigned long request, ...)
{
	errno = atoi(getenv("DRIVER_SAYS"));
	return errno ? -1 : 0;
}
`)
	for says, want := range map[syscall.Errno][2]string{
		syscall.EPROTO:    {"another protocol version", "modprobe -r paracuda"},
		syscall.EBUSY:     {"all channels are in use", "--set channels=N"},
		syscall.EDQUOT:    {"as one user may", "user_share"},
		syscall.ENODEV:    {"the device is gone", "paracuda attach"},
		syscall.EHOSTDOWN: {"no worker", "paracuda doctor (on the host)"},
		syscall.ENXIO:     {"no GPU for this VM", "paracuda doctor (on the host)"},
		syscall.EIO:       {"Input/output error", "dmesg"},
		0:                 {"one is free", ""},
	} {
		f, exit := diagnose(t, dir, "channel", "LD_PRELOAD="+filepath.Join(dir, "driver.so"),
			fmt.Sprintf("DRIVER_SAYS=%d", says))
		level := "problem"
		if says == 0 {
			level = "ok"
		}
		wantFinding(t, f, exit, level, want[0], want[1])
	}
}

// TestGuestDoctorLibrary: libraries that aren't Paracuda's, and broken ones.
func TestGuestDoctorLibrary(t *testing.T) {
	needDoctor(t)
	// All functions but the one that a case replaces do nothing and succeed.
	nothing := "int cuGetExportTable() { return 1; }\n"
	for _, name := range []string{"cuInit", "cuDeviceGet", "cuDeviceGetName", "cuCtxSetCurrent",
		"cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction", "cuMemAlloc_v2",
		"cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuLaunchKernel", "cuGetErrorName"} {
		nothing += "int " + name + "() { return 0; }\n"
	}
	returns := func(code string) string {
		return strings.Replace(nothing, "int cuInit() { return 0; }",
			"int cuInit() { return "+code+"; }", 1)
	}
	for _, tt := range []struct{ name, check, text, found, fix string }{
		{"another's", "library", nothing, "which is not Paracuda's", "unset LD_LIBRARY_PATH"},
		{"empty", "library", "", "which is not Paracuda's", "unset LD_LIBRARY_PATH"},
		{"incomplete", "computation", "int cuInit() { return 0; }", "there is no cuDeviceGet",
			"paracuda-doctor library"},
		{"wrong numbers", "computation", nothing, "2 squared is 2", "paracuda doctor"},
		{"other versions", "computation", returns("803"), "initialise CUDA", "--reinstall"},
		{"no device", "computation", returns("100"), "initialise CUDA", "paracuda-doctor device"},
		{"crash", "computation", returns("*(int *)0"), "the check ended with status", "dmesg"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := putVM(t, nil)
			compile(t, dir, "libcuda.so.1", tt.text)
			f, exit := diagnose(t, dir, tt.check, "LD_LIBRARY_PATH="+dir)
			wantFinding(t, f, exit, "problem", tt.found, tt.fix)
		})
	}
	dir := putVM(t, map[string]string{"libcuda.so.1": "no library"})
	f, exit := diagnose(t, dir, "library", "LD_LIBRARY_PATH="+dir)
	wantFinding(t, f, exit, "problem", "file too short", "unset LD_LIBRARY_PATH")
}

// TestGuestDoctorUsage: a mistake on the command line is answered with one line and exit code 2.
func TestGuestDoctorUsage(t *testing.T) {
	needDoctor(t)
	for _, args := range [][]string{{"--fly"}, {"health"}, {"--json", "node", "health"},
		{"--root"}} {
		r := command(t, time.Minute, root, append([]string{guestDoctor}, args...)...)
		if r.exit != 2 || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 ||
			!strings.HasSuffix(r.stderr, ": see paracuda-doctor --help\n") {
			t.Errorf("%q: exit code %d, output %q, %q, want 2 and one line that names --help", args,
				r.exit, r.stdout, r.stderr)
		}
	}
	r := command(t, time.Minute, root, guestDoctor, "--help")
	if r.exit != 0 || r.stderr != "" || !strings.Contains(r.stdout, " computation\n") {
		t.Errorf("--help: exit code %d, %q, %q, want 0 and the list of checks", r.exit, r.stdout,
			r.stderr)
	}
}

// TestGuestDoctor runs the doctor in a VM in which all is well, and again without the device's node
// and with a broken library.
func TestGuestDoctor(t *testing.T) {
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "uml") {
		skip(t, "PARACUDA_VM leaves User Mode Linux out, and one front end is enough here")
	}
	boots(t)
	documented := codeBlock(t, "docs/guest.md", "paracuda-doctor ")
	script := `set -e; PATH=${1%/*}:$PATH; export PATH; { ` + documented + ` } >/tmp/documented
		set +e; grep -c '"healthy": true' /tmp/documented; grep '^ok       channel' /tmp/documented
		"$1"; echo "code $?"; rm /dev/paracuda; mkdir /tmp/lib; echo x >/tmp/lib/libcuda.so.1
		LD_LIBRARY_PATH=/tmp/lib "$1" device node channel library computation; echo "code $?"`
	vm := frontEnds[0]
	r := vm.run(t, vm.limit, "--", "sh", "-c", script, "sh", guestDoctor)
	said, well, _ := strings.Cut(r.stdout, "\n")
	well, broken, _ := strings.Cut(well, "code 0\n")
	if said != "1" || strings.Count(well, "channel: one is free") != 3 {
		t.Errorf("as documented: %q healthy, want 1, and 3 times a free channel:%s%s", said,
			tail(r.stdout), tail(r.stderr))
	}
	if strings.Contains(well, "problem ") || !strings.Contains(well, "\nno problems, ") {
		t.Errorf("a VM that is well has problems:%s%s", tail(r.stdout), tail(r.stderr))
	}
	for _, want := range []string{"device: virtio0 has the driver paracuda",
		"channel: one is free", "node: /dev/paracuda is for all users",
		"computation: right, on ", "library: programs get "} {
		if !strings.Contains(well, "ok       "+want) {
			t.Errorf("a VM that is well: the doctor doesn't say %q:%s", want, tail(well))
		}
	}
	want := `ok       device: virtio0 has the driver paracuda
problem  node: no /dev/paracuda, and there is a device: is this a container?
           fix: podman run --device paracuda.dev/gpu=all ...
problem  channel: no /dev/paracuda
           fix: paracuda-doctor device module
problem  library: /tmp/lib/libcuda.so.1: file too short
           fix: unset LD_LIBRARY_PATH
problem  computation: there is no libcuda.so.1
           fix: paracuda-doctor library
4 problems, no warnings
code 1
`
	if broken != want {
		t.Errorf("a VM that is broken: the doctor says %q, want %q", broken, want)
	}
}
