// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"encoding/binary"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vm"
)

// takenScript uses the GPU, and prints which driver has the device. Then it gives the device to
// virtiofs, as if it was plugged in, waits until our driver has taken it over, and uses the GPU
// again. At last it gives the device to virtiofs while our driver isn't loaded, loads that, and
// uses the GPU once more.
const takenScript = `cd /sys/bus/virtio
who() { basename "$(readlink devices/virtio0/driver)"; }
"$0" >/dev/null && who
echo virtio0 >drivers/paracuda/unbind
echo virtio0 >drivers/virtiofs/bind
until [ "$(who)" = paracuda ] && [ -e /dev/paracuda ]; do sleep 0.1; done
"$0" >/dev/null && who
rmmod paracuda
echo virtio0 >drivers/virtiofs/bind
insmod "$1" && [ -e /dev/paracuda ] && "$0" >/dev/null && who`

// TestTakenFromBuiltInVirtiofs: the newest kernel has virtiofs built in, which gets the device
// before any module is loaded. Our driver takes it over, then and whenever virtiofs gets it later,
// and programs use the GPU.
func TestTakenFromBuiltInVirtiofs(t *testing.T) {
	boots(t)
	needsUML(t)
	for _, tag := range []string{wire.FsTag, wire.FsTag + ":second"} {
		t.Run(tag, func(t *testing.T) {
			console := bindsFileSystem(t, tag, takenScript, "/dev/paracuda",
				"paracuda\nparacuda\nparacuda\n")
			for _, line := range []string{"virtiofs virtio0: discovered new tag: " + tag,
				"virtio0: taken over from virtiofs"} {
				if strings.Count(console, line) != 3 {
					t.Errorf("the console has %q %d times, want 3:%s", line,
						strings.Count(console, line), tail(console))
				}
			}
		})
	}
}

// leftScript prints which driver has the device, after ours had time to take it.
const leftScript = `sleep 1; basename "$(readlink /sys/bus/virtio/devices/virtio0/driver)"`

// TestLeftToVirtiofs: our driver leaves a device alone whose tag only begins with ours.
func TestLeftToVirtiofs(t *testing.T) {
	boots(t)
	needsUML(t)
	console := bindsFileSystem(t, wire.FsTag+"s", leftScript, "", "virtiofs\n")
	if strings.Contains(console, "taken over") {
		t.Errorf("our driver has taken the device:%s", tail(console))
	}
}

func needsUML(t *testing.T) {
	t.Helper()
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "uml") {
		skip(t, "PARACUDA_VM leaves User Mode Linux out")
	}
}

// bindsFileSystem boots the newest kernel with a device that has a tag, waits until the guest has a
// file ("": none), and runs a script, whose output must be want. It returns the console's text.
func bindsFileSystem(t *testing.T, tag, script, file, want string) string {
	t.Helper()
	assets, dir := vm.FindAssets(), t.TempDir()
	driver, err := assets.Driver(vm.UML, "")
	if err != nil {
		t.Fatal(err)
	}
	device := filepath.Join(dir, "device")
	serve(t, device)
	ctx, cancel := withPatience(t.Context(), 2*time.Minute)
	defer cancel()
	var stdout, console bytes.Buffer
	r, err := vm.Run(ctx, vm.Config{Kind: vm.UML, Assets: assets,
		Machine: vm.Machine{Console: &console, Verbose: true},
		Device:  vm.Device{Socket: asFileSystem(t, device, tag), VirtioID: wire.VirtioIdFs},
		Driver: vm.GuestDriver{Modules: []vm.Module{driver}, File: file,
			LibDir: assets.LibDir()},
		Program: vm.Program{Name: "sh", Args: []string{"-c", script,
			filepath.Join(programs, follower), driver.File}, Dir: root, Stdout: &stdout,
			Stderr: &console}})
	if err != nil || r.ExitCode != 0 || stdout.String() != want {
		t.Errorf("exit code %d, %v, want %q:%s%s", r.ExitCode, err, want, tail(stdout.String()),
			tail(console.String()))
	}
	return console.String()
}

// asFileSystem is a proxy between a front end and a device. For the device it answers that its
// configuration space is that of a file system with a tag, as QEMU does itself.
func asFileSystem(t *testing.T, device, tag string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "fs")
	listener, err := vhostuser.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		front, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		back, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: device})
		if err != nil {
			t.Errorf("connect to the device: %v", err)
			_ = front.Close()
			return
		}
		f, b := vhostuser.NewConn(front, time.Minute), vhostuser.NewConn(back, time.Minute)
		go relay(b, f, nil)
		relay(f, b, func(m *vhostuser.Message) *vhostuser.Message {
			return fileSystemConfig(m, tag)
		})
	}()
	return socket
}

// relay passes messages on until one side closes. Those that answer knows it answers itself.
func relay(from, to *vhostuser.Conn, answer func(*vhostuser.Message) *vhostuser.Message) {
	defer func() { _, _ = from.Close(), to.Close() }()
	for {
		m, err := from.Read()
		if err != nil {
			return
		}
		where := to
		if answer != nil {
			if a := answer(m); a != nil {
				m, where = a, from
			}
		}
		err = where.Write(m)
		for _, fd := range m.FDs {
			_ = fd.Close()
		}
		if err != nil {
			return
		}
	}
}

// fileSystemConfig answers GET_CONFIG with a tag and a number of queues.
func fileSystemConfig(m *vhostuser.Message, tag string) *vhostuser.Message {
	if m.Request != vhostuser.GetConfig || len(m.Payload) < 12 {
		return nil
	}
	space := make([]byte, 36, 4096)
	copy(space, tag)
	space = binary.LittleEndian.AppendUint32(space, 16)[:cap(space)]
	e := binary.NativeEndian
	from, size := e.Uint32(m.Payload), e.Uint32(m.Payload[4:])
	access := vhostuser.ConfigAccess{Offset: from, Data: space[from:][:size]}
	return &vhostuser.Message{Request: m.Request,
		Flags: vhostuser.FlagVersion | vhostuser.FlagReply, Payload: access.AppendTo(nil)}
}
