// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vm"
)

// visitor runs a program on each device that appears, and prints its exit code and whether there
// are two GPUs. One device may follow another at once: the inode of /dev/paracuda tells them apart.
const visitor = `
number() { stat -c %i /dev/paracuda 2>/dev/null; }
echo up
while :; do
	until now=$(number); do sleep 0.2; done
	"$0" >/dev/null; code=$? two=
	case $("${0%/*}/lostgpu" 1 2>/dev/null) in *"1 rounds") two=", of two GPUs" ;; esac
	echo "used $code$two"
	while [ "$(number)" = "$now" ]; do sleep 0.2; done
	echo gone
done`

// served is a device process.
type served struct {
	cmd *exec.Cmd
	log string
}

// serve starts a device process, and waits for its socket.
func serve(t *testing.T, socket string, options ...string) *served {
	t.Helper()
	log, err := os.Create(filepath.Join(logDir(t), filepath.Base(socket)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(paracuda,
		append([]string{"device", "--gpu", "soft", "--socket-path", socket}, options...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := &served{cmd, log.Name()}
	t.Cleanup(d.kill)
	const pause = 20 * time.Millisecond
	for w := patienceOf(10 * time.Second); !w.over(); time.Sleep(pause) {
		if listens(socket) {
			return d
		}
	}
	t.Fatalf("the device process made no socket %s", socket)
	return nil
}

// listens says whether somebody can connect to a socket: its file is there a moment before.
func listens(socket string) bool {
	const accepts = "00010000" // the flags of a socket that listens
	list, _ := os.ReadFile("/proc/net/unix")
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line) // address, references, protocol, flags, type, state, inode, path
		if len(f) == 8 && f[3] == accepts && f[7] == socket {
			return true
		}
	}
	return false
}

func (d *served) kill() {
	d.cmd.Process.Kill()
	d.cmd.Wait()
}

// runningVM boots a VM in QEMU, with the driver but without a device. A shell in it runs a script,
// whose $0 is a program. It returns the QMP socket and the script's output. If memory isn't 0, the
// VM starts with 512 MiB, and memory is the most that it can get.
func runningVM(t *testing.T, script, program string, memory int64) (string, *bufio.Reader) {
	t.Helper()
	assets := vm.FindAssets()
	driver, err := assets.Driver(vm.QEMU, "")
	if err != nil {
		t.Fatal(err)
	}
	qmp := filepath.Join(t.TempDir(), "qmp")
	ctx, cancel := withPatience(t.Context(), 4*time.Minute)
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := vm.Config{Kind: vm.QEMU, Assets: assets, Machine: vm.Machine{QMPSocket: qmp},
			Driver: vm.GuestDriver{Modules: []vm.Module{driver}, LibDir: assets.LibDir()},
			Program: vm.Program{Name: "sh", Args: []string{"-c", script, program}, Dir: root,
				Stdout: w, Stderr: os.Stderr}}
		if memory != 0 {
			c.Machine.Memory, c.Machine.Most = 512<<20, memory
		}
		_, err := vm.Run(ctx, c)
		w.CloseWithError(err)
	}()
	t.Cleanup(func() { cancel(); r.Close(); <-done })
	return qmp, bufio.NewReader(r)
}

func expectLine(t *testing.T, lines *bufio.Reader, want string) {
	t.Helper()
	got, err := lines.ReadString('\n')
	if err != nil || strings.TrimSpace(got) != want {
		t.Fatalf("the VM said %q, %v, want %q", got, err, want)
	}
}

// TestAttachToRunningVM plugs a device into a running VM, kills its device process, plugs in
// another one with two GPUs, and takes that out.
func TestAttachToRunningVM(t *testing.T) {
	boots(t)
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "qemu") {
		skip(t, "PARACUDA_VM leaves QEMU out, which alone can hot-plug")
	}
	qmp, lines := runningVM(t, visitor, filepath.Join(programs, follower), 0)
	expectLine(t, lines, "up")
	dir := t.TempDir()
	plug := func(args ...string) {
		t.Helper()
		if r := command(t, 2*time.Minute, root,
			append([]string{paracuda}, args...)...); r.exit != 0 {
			t.Fatalf("%s: %s", args[0], r.stderr)
		}
	}
	device := filepath.Join(dir, "device")
	here := strings.NewReplacer("/run/vm.qmp", qmp, "/run/gpu.sock", device,
		"/usr/local/bin/paracuda", paracuda)
	attach, detach, _ := strings.Cut(
		strings.TrimSpace(here.Replace(codeBlock(t, "README.md", "paracuda attach"))), "\n")
	first := serve(t, device)
	plug(strings.Fields(attach)[1:]...)
	expectLine(t, lines, "used 0")
	again := command(t, 2*time.Minute, root, paracuda, "attach", "--qmp", qmp, "--device", device)
	if again.exit != 1 || !strings.Contains(again.stderr, "serves a VM already") {
		t.Errorf("attaching it twice: exit code %d, %q, want 1, and that it serves a VM already",
			again.exit, again.stderr)
	}
	first.kill()
	asService(t, here.Replace(codeBlock(t, "docs/operation.md", "[Service]")), "--gpu", "soft:2")
	expectLine(t, lines, "gone")
	expectLine(t, lines, "used 0, of two GPUs")
	plug(strings.Fields(detach)[1:]...)
	expectLine(t, lines, "gone")
}

// asService starts a device process as systemd would from a unit, with more options.
func asService(t *testing.T, unit string, options ...string) {
	t.Helper()
	commands := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(unit, "\\\n", " ")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		commands[key] = strings.TrimPrefix(value, "-")
	}
	words, found := strings.CutPrefix(commands["ExecStart"], paracuda+" device --socket-path ")
	if !found || commands["Restart"] != "on-failure" {
		t.Fatalf("want a unit that starts a device process, and again on failure: %q", commands)
	}
	started := strings.Fields(words)
	if err := os.Remove(started[0]); err != nil { // serve waits for the new one
		t.Fatal(err)
	}
	serve(t, started[0], append(started[1:], options...)...)
	r := command(t, 2*time.Minute, root, "sh", "-c", commands["ExecStartPost"])
	if r.exit != 0 {
		t.Fatalf("%s: %s", commands["ExecStartPost"], r.stderr)
	}
}

// TestWaitingIsTold: at a terminal detach says what it waits for. Here QEMU never greets.
func TestWaitingIsTold(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil {
		skip(t, "nothing makes a terminal here: %v", err)
	}
	qmp := filepath.Join(t.TempDir(), "qmp")
	l, err := net.Listen("unix", qmp) // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := command(t, time.Minute, root,
		"script", "-qec", paracuda+" detach --qmp "+qmp, "/dev/null")
	const want = "paracuda: waiting for the VM to give the GPU back ..."
	if said := r.stdout + r.stderr; r.exit != 1 || !strings.Contains(said, want) {
		t.Errorf("exit code %d, %q, want 1, %q", r.exit, said, want)
	}
}
