// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/qemu"
	"github.com/paracuda/paracuda/vm"
)

// answerSeconds is the time after which a guest's driver gives up a device that doesn't answer. By
// day it is less than the default.
func answerSeconds() int { return times(5, 30) }

// givesUp is a line of a guest's script that sets the driver's answer_seconds.
func givesUp() string {
	return fmt.Sprintf("echo %d >/sys/module/paracuda/parameters/answer_seconds", answerSeconds())
}

// orphan runs a program that ends only because its device is gone, and then one that finds none.
const orphan = `
cd /tmp
"$0" 0 >/dev/null 2>first & echo up
wait $!; [ $? -gt 0 ] && grep -ho "the paracuda device is gone.*" first
"$0" 0 2>&1 >/dev/null | grep -o "the paracuda device is gone.*\|cudaErrorNoDevice.*"
`

// adopted runs a program with the device that is attached next.
const adopted = `until "$0" 1000 >/dev/null 2>&1; do sleep 0.2; done
echo /dev/paracuda*`

// TestDeviceProcessIsKilled kills a VM's device process and its keeper at the same moment, so that
// neither can do anything about it. All of the VM's processes on the host end. A program that waits
// for the device ends, and says why. So does one that is started then. When another device is
// attached, programs use it, and it is called /dev/paracuda as the first one was.
func TestDeviceProcessIsKilled(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, front frontEnd) {
		dir := t.TempDir()
		control, qmp := filepath.Join(dir, "control"), filepath.Join(dir, "qmp")
		first := filepath.Join(dir, "first")
		device := serve(t, first, "--keeper", "on", "--control", control)
		lines := orphaned(t, front, first, qmp)
		const gone = "the paracuda device is gone: attach it again on the host"
		expectLine(t, lines, "up")
		until(t, 2*time.Minute, "the program computes",
			func() bool { return launches(control) > 0 })
		device.killBoth(t)
		expectLine(t, lines, gone)
		if !front.isQEMU() { // it takes the device away by itself, and can't hot-plug
			expectLine(t, lines, "cudaErrorNoDevice (100)")
			return
		}
		expectLine(t, lines, gone)
		second := filepath.Join(dir, "second")
		serve(t, second)
		if r := command(t, 2*time.Minute, root, paracuda, "attach", "--qmp", qmp, "--device",
			second); r.exit != 0 {
			t.Fatalf("attach: %s", r.stderr)
		}
		expectLine(t, lines, "/dev/paracuda")
	})
}

// orphaned boots a VM with a device that will be gone, and returns what its programs say.
func orphaned(t *testing.T, front frontEnd, device, qmp string) *bufio.Reader {
	t.Helper()
	assets := vm.FindAssets()
	driver, err := assets.Driver(vm.Kind(front.name), "")
	if err != nil {
		t.Fatal(err)
	}
	script, machine := givesUp()+orphan, vm.Machine{}
	if front.isQEMU() {
		script, machine = script+adopted, vm.Machine{QMPSocket: qmp}
	}
	ctx, cancel := withPatience(t.Context(), 4*time.Minute)
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := vm.Run(ctx, vm.Config{Kind: vm.Kind(front.name), Assets: assets,
			Machine: machine, Device: vm.Device{Socket: device, Queues: 17},
			Driver: vm.GuestDriver{Modules: []vm.Module{driver}, File: "/dev/paracuda",
				LibDir: assets.LibDir()},
			Program: vm.Program{Name: "sh", Dir: root, Stdout: w, Stderr: w,
				Args: []string{"-c", script, filepath.Join(programs, "launches")}}})
		w.CloseWithError(err)
	}()
	t.Cleanup(func() { cancel(); r.Close(); <-done })
	return bufio.NewReader(r)
}

// killBoth kills a keeper and its device process at the same moment, and waits until the processes
// end that these have started.
func (d *served) killBoth(t *testing.T) {
	t.Helper()
	keeper := d.cmd.Process.Pid
	both, family := append(leaks.Children(keeper), keeper), leaks.Family(keeper)
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range both {
			if err := syscall.Kill(pid, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.kill()
	if len(both) != 2 || len(family) < 3 {
		t.Fatalf("the keeper and its device process are %v, of %v", both, family)
	}
	until(t, time.Minute, "the VM's processes end", func() bool { return !anyLives(family) })
}

// couple waits for two devices, and then until one of them is gone. It runs a program on the one
// that is left, which is /dev/paracuda then.
const couple = `
echo up
until [ -e /dev/paracuda1 ]; do sleep 0.2; done
echo two
while [ -e /dev/paracuda1 ]; do sleep 0.2; done
"$0" >/dev/null; echo "used $?"
while :; do sleep 1; done`

// TestLiveDeviceHasTheFirstName plugs two devices into a VM, and kills the first one's process.
// attach says that there is another device, and takes out the one whose process has ended.
func TestLiveDeviceHasTheFirstName(t *testing.T) {
	boots(t)
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "qemu") {
		skip(t, "PARACUDA_VM leaves QEMU out, which alone can hot-plug")
	}
	qmp, lines := runningVM(t, givesUp()+couple, filepath.Join(programs, follower), 0)
	expectLine(t, lines, "up")
	dir := t.TempDir()
	first := serve(t, filepath.Join(dir, "first"))
	serve(t, filepath.Join(dir, "second"))
	var said string
	for _, name := range []string{"first", "second"} {
		bus := map[string]string{"first": qemu.Port, "second": qemu.SparePort}[name]
		r := command(t, 2*time.Minute, root, paracuda, "attach", "--qmp", qmp, "--device",
			filepath.Join(dir, name), "--id", name, "--bus", bus)
		if r.exit != 0 {
			t.Fatalf("attach the %s: %s", name, r.stderr)
		}
		said += r.stderr
	}
	if !strings.Contains(said, "the VM has another device, first, whose device process runs") ||
		strings.Contains(said, "second") {
		t.Errorf("attach says %q, want that the device first is there, and nothing of second", said)
	}
	expectLine(t, lines, "two")
	first.kill()
	expectLine(t, lines, "used 0")
	serve(t, filepath.Join(dir, "third"))
	r := command(t, 2*time.Minute, root, paracuda, "attach", "--qmp", qmp, "--device",
		filepath.Join(dir, "third"), "--id", "third", "--wait", "0")
	if r.exit != 0 ||
		!strings.Contains(r.stderr, "took out the device first, whose device process had ended") {
		t.Errorf("attach: exit code %d, %q, want 0 and that it took out the device first", r.exit,
			r.stderr)
	}
}
