// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/qemu"
	"github.com/paracuda/paracuda/vm"
)

// staying is a VM that prints whether it has its device, and does what it is told (guests/stay.c).
type staying struct {
	t                     *testing.T
	console, line, socket string   // the log of its console, its serial line, QMP
	conn                  net.Conn // to its serial line; nil: it wasn't told anything yet
	gone                  chan error
	kill                  func() // ends QEMU
}

// startMachine boots such a VM with a root file system, the socket of a device ("": none) and a
// name for its console's log. more are options for QEMU.
func startMachine(t *testing.T, program, device, console, root string, more ...string) *staying {
	t.Helper()
	dir := t.TempDir()
	kernel, err := vm.FindAssets().KernelDir(vm.QEMU, "6.1")
	if err != nil {
		t.Fatal(err)
	}
	g := &staying{t: t, console: filepath.Join(logDir(t), console),
		line:   filepath.Join(dir, "line"),
		socket: filepath.Join(dir, "qmp"), gone: make(chan error, 1)}
	m := qemu.Machine{Accel: "tcg", Memory: 512 << 20, CPUs: 1,
		Kernel: filepath.Join(kernel, "vmlinux"), Initrd: root,
		// As package vm does, leave out what takes an emulated processor long.
		Append: "console=ttyS0 mitigations=off tsc=reliable no_timer_check cryptomgr.notests" +
			" audit=0 apparmor=0 8250.nr_uarts=1 quiet",
		QMP:    g.socket,
		Serial: "socket,id=serial,server=on,wait=off,path=" + g.line + ",logfile=" + g.console}
	if device != "" {
		m.Devices = []qemu.Device{{Socket: device}}
	}
	args := slices.DeleteFunc(m.Args(), func(arg string) bool { return arg == "-no-reboot" })
	args = append(args, more...)
	if err := os.RemoveAll(g.console); err != nil { // of an earlier run
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { g.gone <- cmd.Wait() }()
	g.kill = func() { _ = cmd.Process.Kill() }
	t.Cleanup(g.kill)
	return g
}

// stayingRoot makes the VM's initramfs, with parameters for its driver.
func stayingRoot(t *testing.T, parameters string) string {
	t.Helper()
	assets := vm.FindAssets()
	kernel, err := assets.KernelDir(vm.QEMU, "6.1")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "stay")
	r := command(t, time.Minute, root, "gcc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o",
		program, "tests/guests/stay.c")
	if r.exit != 0 {
		t.Fatalf("build the guest: %s", r.stderr)
	}
	return driverOnly(t, assets, kernel, program, parameters)
}

// expect waits until the console has had a line that many times.
func (g *staying) expect(line string, times int) {
	g.t.Helper()
	for w := patienceOf(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(g.console)
		switch {
		case strings.Count(string(text), line) >= times:
			return
		case len(g.gone) > 0:
			g.t.Fatalf("QEMU has ended: %v, before the guest said %q", <-g.gone, line)
		case w.over():
			g.t.Fatalf("the guest said %q %d times, want %d:\n%s", line,
				strings.Count(string(text), line), times, tail(string(text)))
		}
	}
}

// dial connects to a socket of QEMU's, which is there for a moment before QEMU listens.
func (g *staying) dial(socket string) net.Conn {
	g.t.Helper()
	for w := patienceOf(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		switch {
		case err == nil:
			return conn
		case !errors.Is(err, syscall.ECONNREFUSED), len(g.gone) > 0, w.over():
			g.t.Fatal(err)
		}
	}
}

// tell writes a word to the VM's console.
func (g *staying) tell(word string) {
	g.t.Helper()
	if g.conn == nil {
		conn := g.dial(g.line)
		g.conn = conn
		go func() { _, _ = io.Copy(io.Discard, conn) }() // else the guest's output would block
		g.t.Cleanup(func() { _ = conn.Close() })         // before that QEMU has to read all
	}
	fmt.Fprintln(g.conn, word)
}

// qmp gives QEMU a command and returns its answer.
func (g *staying) qmp(command string) string {
	g.t.Helper()
	return g.qmpWith(command, "")
}

// qmpWith is qmp with one string argument, or none.
func (g *staying) qmpWith(command, name string, value ...string) string {
	g.t.Helper()
	conn := g.dial(g.socket)
	defer conn.Close()
	ctx, cancel := withPatience(context.Background(), time.Minute)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	lines := bufio.NewReader(conn)
	var answer string
	var err error
	for _, c := range []string{"", "qmp_capabilities", command} {
		switch {
		case c == command && name != "":
			fmt.Fprintf(conn, "{\"execute\":%q,\"arguments\":{%q:%q}}\n", c, name, value[0])
		case c != "":
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
