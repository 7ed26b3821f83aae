// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vm"
)

// TestOtherVersion boots a guest whose device speaks a later protocol version than its driver.
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, front frontEnd) {
		assets := vm.FindAssets()
		driver, err := assets.Driver(vm.Kind(front.name), "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := withPatience(t.Context(), front.boot+front.limit)
		defer cancel()
		later := device.New(device.Config{GPU: "soft", Settings: settings.Default(),
			Version: 99, Log: quietLog()})
		socket, _ := serveOnce(t, ctx, later)
		var console bytes.Buffer
		result, err := vm.Run(ctx, vm.Config{Kind: vm.Kind(front.name), Assets: assets,
			Machine: vm.Machine{Console: &console, Verbose: true},
			Device:  vm.Device{Socket: socket, Queues: 17},
			Driver:  vm.GuestDriver{Modules: []vm.Module{driver}},
			Program: vm.Program{Name: "sh", Args: []string{"-c", "! test -e /dev/paracuda"},
				Dir: root}})
		if err != nil || result.ExitCode != 0 {
			t.Errorf("exit code %d, %v, want 0: no /dev/paracuda", result.ExitCode, err)
		}
		said := fmt.Sprintf("device speaks protocol version 99, this driver %d: "+
			"install the guest package", wire.Version)
		if front.name == string(vm.QEMU) { // a file system's device can't tell its version
			said = fmt.Sprintf("device refuses protocol version %d: install the guest package",
				wire.Version)
		}
		if !strings.Contains(console.String(), said) {
			t.Errorf("the guest's kernel doesn't say %q:%s", said, tail(console.String()))
		}
	})
}

// TestMemoryIsNotShared boots a guest whose RAM isn't shared with the device. The log names the
// fix.
func TestMemoryIsNotShared(t *testing.T) {
	boots(t)
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "qemu") {
		skip(t, "PARACUDA_VM leaves QEMU out, and the memory of User Mode Linux is always shared")
	}
	assets := vm.FindAssets()
	program, err := assets.QEMU()
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := assets.KernelDir(vm.QEMU, "6.1")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "device")
	initFile, err := assets.Init()
	if err != nil {
		t.Fatal(err)
	}
	served := serve(t, socket)
	ctx, cancel := withPatience(t.Context(), 2*time.Minute)
	defer cancel()
	guest := exec.CommandContext(ctx, program, "-nodefaults", "-display", "none", "-no-reboot",
		"-machine", "q35",
		"-accel", "tcg", "-cpu", "max", "-m", "512M", "-kernel", filepath.Join(kernel, "vmlinuz"),
		"-initrd", driverOnly(t, assets, kernel, initFile, ""), "-append",
		"panic=-1 mitigations=off -- link=/dev/vport0p1 files=host",
		"-chardev", "socket,id=gpu,path="+socket,
		"-device",
		"vhost-user-fs-pci,chardev=gpu,tag=paracuda,num-request-queues=16,queue-size=1024")
	if err := guest.Start(); err != nil {
		t.Fatal(err)
	}
	defer guest.Wait()
	defer guest.Process.Kill()
	for ctx.Err() == nil {
		log, err := os.ReadFile(served.log)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(log), "share=on") {
			t.Logf("%s", log)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("the device's log doesn't say \"share=on\"")
}

// driverOnly makes an initramfs with the guest driver and a first process. That has to load the
// driver with these parameters.
func driverOnly(t *testing.T, assets vm.Assets, kernel, initFile, parameters string) string {
	t.Helper()
	driver, err := assets.Driver(vm.QEMU, "6.1")
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(t.TempDir(), "initramfs")
	script := `set -e; d=$(mktemp -d); mkdir $d/dev $d/modules; cp "$1" $d/init; cp "$2" $d/modules/
		for m in virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci; do
			cp "$3/modules/kernel/drivers/virtio/$m.ko" $d/modules/
			echo /modules/$m.ko
		done >$d/modules/list
		echo "/modules/paracuda.ko $5" >>$d/modules/list
		cd $d; find . | cpio -o -H newc --quiet >"$4"; rm -r $d`
	if r := command(t, time.Minute, root, "sh", "-c", script, "sh", initFile, driver.File, kernel,
		image, parameters); r.exit != 0 {
		t.Fatalf("make an initramfs: %s", r.stderr)
	}
	return image
}
