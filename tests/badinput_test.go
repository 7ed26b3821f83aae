// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// oneLine is a command line that can't be carried out. The answer must come soon, and be one line
// that names the fix.
type oneLine struct {
	name    string
	args    []string
	env     []string
	message string // a regular expression
	exit    int    // 0: any but 0
}

func badInput(t *testing.T) []oneLine {
	dir := t.TempDir()
	socket := filepath.Join(dir, "used")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	old := filepath.Join(dir, "qemu")
	text := "#!/bin/sh\necho 'QEMU emulator version 6.2.0 (Debian)'\n"
	if err := os.WriteFile(old, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(dir, "bare")
	text = "#!/bin/sh\n[ \"$*\" = --version ] && exec echo 'QEMU emulator version 9.2.0'\n" +
		"echo \"qemu: 'vhost-user-fs-pci' is not a valid device model name\" >&2\nexit 1\n"
	if err := os.WriteFile(bare, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(logDir(t), "no-program")
	if err := os.WriteFile(plain, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(dir, "gone")
	// Another line may say what this machine lacks: it isn't about the input, so it is left out.
	device := func(args ...string) []string {
		return append([]string{"device", "--log-level", "warning"}, args...)
	}
	return append([]oneLine{
		{name: "unknown command", args: []string{"fly"}, message: `fly`, exit: 2},
		{name: "no socket", args: []string{"device"}, message: `--socket-path|--fd`,
			exit: 2},
		{name: "socket in use", args: device("--socket-path", socket),
			message: `in use`},
		{name: "socket nowhere", args: device("--socket-path", gone+"/s"),
			message: `gone/s: its folder isn't there: mkdir -p \S+/gone\n$`, exit: 1},
		{name: "not a socket", args: []string{"device", "--fd", "0"}, message: `socket`},
		{name: "no file", args: device("--gpu", "soft", "--socket-path", dir+"/f",
			"--from", gone), message: `--from .*gone`, exit: 1},
		{name: "not a file of ours", args: device("--gpu", "soft", "--socket-path",
			dir+"/f", "--from", plain), message: `is none of Paracuda's|is cut short`, exit: 1},
		{name: "no QMP", args: []string{"attach", "--qmp", gone, "--device", socket},
			message: `gone`},
		{name: "attach what", args: []string{"attach"}, message: `--qmp.*--domain`, exit: 2},
	}, badRuns(old, bare, gone, plain)...)
}

// badRuns are command lines of "paracuda run" with something wrong: a QEMU that is too old or lacks
// the device, a file that isn't there, one that is no program.
func badRuns(oldQEMU, bare, gone, plain string) []oneLine {
	run := func(args ...string) []string {
		return append([]string{"run", "--gpu", "soft"}, args...)
	}
	uml := func(args ...string) []string { return append(run("--vm", "uml"), args...) }
	return []oneLine{
		{name: "no program", args: uml(), message: `(?i)program`, exit: 2},
		{name: "unknown VM", args: run("--vm", "bochs", "--", "true"),
			message: `bochs.*(qemu|uml)`, exit: 2},
		{name: "unknown GPU", args: uml("--gpu", "voodoo", "--", "true"), message: `voodoo.*soft`,
			exit: 2},
		{name: "too many software GPUs", args: uml("--gpu", "soft:9", "--", "true"),
			message: `soft:9.*soft:N.*1 to 8`, exit: 2},
		{name: "no index of a GPU", args: uml("--gpu", "cuda:first", "--", "true"),
			message: `first.*index.*paracuda probe`, exit: 2},
		{name: "memory", args: uml("--mem", "much", "--", "true"), message: `much`, exit: 2},
		{name: "setting", args: uml("--set", "nonsense", "--", "true"), message: `nonsense`,
			exit: 2},
		{name: "unknown setting", args: uml("--set", "colour=red", "--", "true"),
			message: `colour`, exit: 2},
		{name: "statistics", args: uml("--stats", gone+"/stats", "--", "true"),
			message: `gone/stats: its folder isn't there: mkdir -p \S+/gone\n$`},
		{name: "no such program", args: uml("--", gone), message: `gone`, exit: 127},
		{name: "not executable", args: uml("--", plain), message: `no-program`, exit: 126},
		{name: "old QEMU", args: run("--vm", "qemu", "--", "true"),
			env: []string{"PARACUDA_QEMU=" + oldQEMU}, message: `QEMU 6\.2.*too old.*7\.2`},
		{name: "QEMU without the device", args: run("--vm", "qemu", "--log-level", "error", "--",
			"true"), env: []string{"PARACUDA_QEMU=" + bare},
			message: `has no vhost-user-fs-pci.*apt-get install qemu-system-x86`, exit: 1},
		{name: "no QEMU", args: run("--vm", "qemu", "--", "true"),
			env: []string{"PARACUDA_QEMU=" + gone}, message: `QEMU.*gone`},
	}
}

func TestBadInput(t *testing.T) {
	if testing.Short() {
		skip(t, "-short: bin/paracuda may be missing")
	}
	for _, c := range badInput(t) {
		t.Run(c.name, func(t *testing.T) { c.check(t) })
	}
}

func (c oneLine) check(t *testing.T) {
	args := append([]string{"env"}, append(c.env, append([]string{paracuda}, c.args...)...)...)
	r := command(t, time.Minute, root, args...)
	if r.exit == 0 || c.exit != 0 && r.exit != c.exit {
		t.Errorf("exit code %d, want %d (0: any other)", r.exit, c.exit)
	}
	if !regexp.MustCompile(c.message).MatchString(r.stderr) {
		t.Errorf("standard error %q doesn't match %s", r.stderr, c.message)
	}
	if strings.Count(r.stderr, "\n") != 1 || !strings.HasSuffix(r.stderr, "\n") {
		t.Errorf("standard error %q isn't one line", r.stderr)
	}
	if r.stdout != "" {
		t.Errorf("standard output %q, want none", r.stdout)
	}
}

// TestNoGPU asks for a real GPU where there is none.
func TestNoGPU(t *testing.T) {
	if testing.Short() {
		skip(t, "-short: bin/paracuda may be missing")
	}
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		skip(t, "this host has an NVIDIA GPU: that there is none can't be tested")
	}
	for _, vm := range frontEnds {
		c := oneLine{args: []string{"run", "--vm", vm.name, "--gpu", "cuda", "--", "true"},
			message: `(?i)no .*GPU.*--gpu soft|libcuda.*--gpu soft`}
		t.Run(vm.name, c.check)
	}
}

// TestCapabilities reads what the device process tells a manager of VMs about itself.
func TestCapabilities(t *testing.T) {
	if testing.Short() {
		skip(t, "-short: bin/paracuda may be missing")
	}
	// The other arguments are ignored.
	r := command(t, time.Minute, root, paracuda, "device", "--fd", "none", "--print-capabilities",
		"x")
	var said struct{ Type string }
	if err := json.Unmarshal([]byte(r.stdout), &said); err != nil || said.Type != deviceType ||
		r.exit != 0 {
		t.Errorf("exit code %d, %v: %q, want 0 and the type %q", r.exit, err, r.stdout, deviceType)
	}
}

// TestOthersSocketsStay: a device process can't have its socket if another one serves there, or if
// the path is an ordinary file. It leaves both alone.
func TestOthersSocketsStay(t *testing.T) {
	notShort(t)
	dir := t.TempDir()
	served, file := filepath.Join(dir, "served"), filepath.Join(dir, "file")
	serve(t, served)
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, why := range map[string]string{served: "is in use", file: "is no socket"} {
		r := command(t, time.Minute, root, paracuda, "device", "--gpu", "soft", "--socket-path",
			path, "--control", filepath.Join(dir, "control"))
		if r.exit != 1 || !strings.Contains(r.stderr, why) {
			t.Errorf("exit code %d, %q, want %q", r.exit, r.stderr, why)
		}
		if !exists(path) {
			t.Errorf("%s, which %s, was removed", path, why)
		}
	}
	if exists(filepath.Join(dir, "control")) {
		t.Error("its control socket was left behind")
	}
}

// TestSocketsOfOthers: a user who may not open a socket is told who may.
func TestSocketsOfOthers(t *testing.T) {
	notShort(t)
	if os.Getuid() != 0 {
		skip(t, "only root can be another user: make test runs this as root")
	}
	dir, err := os.MkdirTemp("", "others")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for file, mode := range map[string]os.FileMode{dir: 0o755, socket: 0o700} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	own := copyOf(t, paracuda, dir)
	for _, words := range []string{"stats", "set %s weight=1", "suspend", "resume", "ps --arbiter",
		"device --replace --control", "attach --device %s --qmp", "detach --qmp"} {
		if !strings.Contains(words, "%s weight") {
			words += " %s"
		}
		args := strings.Fields(strings.ReplaceAll(words, "%s", socket))
		c := exec.Command(own, args...)
		c.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, _ := c.CombinedOutput()
		if c.ProcessState.ExitCode() != 1 || strings.Count(string(out), "\n") != 1 ||
			!strings.Contains(string(out), "run this as root, or as ") {
			t.Errorf("%q: exit code %d, %q, want 1 and one line with who may open it", args,
				c.ProcessState.ExitCode(), out)
		}
	}
}
