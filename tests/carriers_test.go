// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/qemu"
	"github.com/paracuda/paracuda/vm"
)

// qemus are the releases of QEMU that are tried, as scripts/fetch-qemu names them.
var qemus = []string{"7.2", "10.0", "11"}

// qemuProgram is a release of QEMU in the cache.
func qemuProgram(t *testing.T, version string) string {
	t.Helper()
	program := filepath.Join(vm.FindAssets().Cache, "qemu-"+version, "qemu-system-x86_64")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run scripts/fetch-qemu %s", err, version)
	}
	return program
}

func needsQEMU(t *testing.T) {
	t.Helper()
	boots(t)
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "qemu") {
		skip(t, "PARACUDA_VM leaves QEMU out")
	}
}

// TestCarriers runs a program behind each carrier, and in each release of QEMU.
func TestCarriers(t *testing.T) {
	needsQEMU(t)
	for _, tt := range []struct{ version, carrier string }{{"7.2", "fs"}, {"10.0", "fs"}, {"11", "generic"}} {
		t.Run(tt.version+"-"+tt.carrier, func(t *testing.T) {
			r := execute(t, within(4*time.Minute), root, "env", "PARACUDA_QEMU="+qemuProgram(t, tt.version), paracuda, "run",
				"--gpu", "soft", "--carrier", tt.carrier, "--report", "--", filepath.Join(programs, follower))
			if r.exit != 0 || !strings.Contains(r.stderr, "ran in QEMU "+tt.version) {
				t.Errorf("exit code %d: %s%s", r.exit, r.stdout, r.stderr)
			}
		})
	}
}

// TestDeadBackEnd resets a VM whose device process was killed: QEMU and VM live on, and attach brings the GPU back.
func TestDeadBackEnd(t *testing.T) {
	needsQEMU(t)
	for _, version := range qemus {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			first := serve(t, filepath.Join(dir, "first-"+version))
			g := startStaying(t, qemuProgram(t, version), filepath.Join(dir, "first-"+version))
			g.expect("guest: device", 1)
			first.kill()
			g.qmp("system_reset")
			g.expect("guest: up", 2)
			if status := g.qmp("query-status"); !strings.Contains(status, `"running": true`) {
				t.Errorf("the VM's status is %s", status)
			}
			serve(t, filepath.Join(dir, "second-"+version))
			r := command(t, 2*time.Minute, root, paracuda, "attach", "--qmp", g.socket, "--device", filepath.Join(dir, "second-"+version))
			if r.exit != 0 {
				t.Fatalf("attach: %s", r.stderr)
			}
			g.expect("guest: device", 2)
		})
	}
}

// staying is a VM that does nothing but tell of its device.
type staying struct {
	t               *testing.T
	console, socket string
	gone            chan error
}

// startStaying boots one with a device.
func startStaying(t *testing.T, program, device string) *staying {
	t.Helper()
	assets, dir := vm.FindAssets(), t.TempDir()
	kernel, err := assets.KernelDir("6.1")
	if err != nil {
		t.Fatal(err)
	}
	g := &staying{t: t, console: filepath.Join(logDir(t), "console"), socket: filepath.Join(dir, "qmp"), gone: make(chan error, 1)}
	m := qemu.Machine{Accel: "tcg", Memory: 512 << 20, CPUs: 1, Kernel: filepath.Join(kernel, "vmlinuz"),
		Initrd: stayingRoot(t, assets, kernel), Append: "console=ttyS0 mitigations=off", QMP: g.socket,
		Serial: "file,id=serial,path=" + g.console, Devices: []qemu.Device{{Socket: device}}}
	args := slices.DeleteFunc(m.Args(), func(arg string) bool { return arg == "-no-reboot" })
	if err := os.RemoveAll(g.console); err != nil { // of an earlier run
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { g.gone <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return g
}

// stayingRoot makes the VM's initramfs.
func stayingRoot(t *testing.T, assets vm.Assets, kernel string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "stay")
	r := command(t, time.Minute, root, "gcc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, "tests/guests/stay.c")
	if r.exit != 0 {
		t.Fatalf("build the guest: %s", r.stderr)
	}
	return driverOnly(t, assets, kernel, program)
}

// expect waits until a line was on the console so many times.
func (g *staying) expect(line string, times int) {
	g.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		text, _ := os.ReadFile(g.console)
		switch {
		case strings.Count(string(text), line) >= times:
			return
		case len(g.gone) > 0:
			g.t.Fatalf("QEMU has ended: %v", <-g.gone)
		case time.Now().After(end):
			g.t.Fatalf("the guest didn't say %q %d times:\n%s", line, times, tail(string(text)))
		}
	}
}

// qmp gives QEMU a command and returns its answer.
func (g *staying) qmp(command string) string {
	g.t.Helper()
	conn, err := net.Dial("unix", g.socket)
	if err != nil {
		g.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	lines := bufio.NewReader(conn)
	var answer string
	for _, c := range []string{"", "qmp_capabilities", command} {
		if c != "" {
			fmt.Fprintf(conn, "{\"execute\":%q}\n", c)
		}
		for {
			if answer, err = lines.ReadString('\n'); err != nil && err != io.EOF {
				g.t.Fatalf("QMP, %s: %v", c, err)
			}
			if err != nil || !strings.Contains(answer, `"event"`) {
				break
			}
		}
	}
	return answer
}
