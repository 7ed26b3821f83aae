// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"slices"
	"strings"
	"testing"
)

func TestMachineSharesItsMemory(t *testing.T) {
	m := Machine{Accel: "tcg", Memory: 512 << 20, CPUs: 2, Kernel: "k", Initrd: "i",
		Append: "quiet"}
	line := strings.Join(m.Args(), " ")
	for _, want := range []string{
		"-machine q35,sata=off,smbus=off,usb=off,memory-backend=memory",
		"-object memory-backend-memfd,id=memory,size=512M,share=on",
		"-m 512M", "-smp 2", "-accel tcg -cpu max,-erms,-fsrm", "-kernel k -initrd i -append quiet",
		"-device pcie-root-port,chassis=1,slot=1,id=paracuda-port",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("the command line lacks %q: %s", want, line)
		}
	}
	for _, not := range []string{"virtserialport", "vhost-user", "-qmp", "-serial"} {
		if strings.Contains(line, not) {
			t.Errorf("the command line has %q: %s", not, line)
		}
	}
}

func TestMachineUnderKVMHasTheHostsProcessor(t *testing.T) {
	m := Machine{Accel: "kvm"}
	if args := m.Args(); !slices.Contains(args, "host") {
		t.Errorf("no -cpu host: %q", args)
	}
}

func TestMachineWithEverything(t *testing.T) {
	m := Machine{
		QMP: "/q,s", Serial: "stdio,id=serial", Link: SerialPort{FD: 3, Name: "l"},
		Files: []Files{{Socket: "/f", Tag: "host"}}, Devices: []Device{{Socket: "/d"}},
	}
	args := m.Args()
	for _, want := range []string{
		"unix:/q,,s,server=on,wait=off",
		"stdio,id=serial", "chardev:serial",
		"socket,id=link,fd=3", "virtserialport,chardev=link,name=l",
		"socket,id=files0,path=/f", "vhost-user-fs-pci,queue-size=1024,chardev=files0,tag=host",
		"socket,id=paracuda0-socket,path=/d",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("the command line lacks %q: %q", want, args)
		}
	}
}

func TestMachineThatIsACopy(t *testing.T) {
	m := Machine{Memory: 512 << 20, RAM: 4, State: "/d/state"}
	line := strings.Join(m.Args(), " ")
	for _, want := range []string{
		"-object memory-backend-file,mem-path=/proc/self/fd/4,id=memory,size=512M,share=on",
		"id=paracuda-port,power_controller_present=off",
		"-global migration.x-ignore-shared=on", "-incoming file:/d/state",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("the command line lacks %q: %s", want, line)
		}
	}
}

func TestDevice(t *testing.T) {
	got := Device{Socket: "/run/a,b"}.Args()
	want := []string{
		"-chardev", "socket,id=paracuda0-socket,path=/run/a,,b",
		"-device", "vhost-user-fs-pci,id=paracuda0,bus=paracuda-port," +
			"chardev=paracuda0-socket,tag=paracuda,num-request-queues=16,queue-size=1024",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the options are\n%q, not\n%q", got, want)
	}
	got = Device{Socket: "/d", Carrier: Generic, Queues: 8}.Args()
	want = []string{
		"-chardev", "socket,id=paracuda0-socket,path=/d",
		"-device", "vhost-user-test-device-pci,id=paracuda0,bus=paracuda-port," +
			"chardev=paracuda0-socket,virtio-id=37,num_vqs=8,vq_size=256,config_size=256",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the options are\n%q, not\n%q", got, want)
	}
}

func TestDeviceKeepsWhatIsGiven(t *testing.T) {
	d := Device{ID: "g", Bus: "b", Carrier: Generic, VirtioID: 63, Queues: 2, QueueSize: 64,
		ConfigSize: 32}
	if got := d.complete(); got != d {
		t.Errorf("%+v became %+v", d, got)
	}
}

func TestMachineLeavesRoomForMemory(t *testing.T) {
	m := Machine{Memory: 512 << 20, Most: 1 << 30}
	if line := strings.Join(m.Args(), " "); !strings.Contains(line,
		"-m 512M,slots=4,maxmem=1024M") {
		t.Errorf("the command line has no room: %s", line)
	}
}
