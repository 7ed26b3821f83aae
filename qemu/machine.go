// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"fmt"
	"strings"
)

// Port is the id of the PCIe port that Machine keeps for the device, so that it can be hot-plugged.
// SparePort is for a second one.
const (
	Port      = "paracuda-port"
	SparePort = "paracuda-port-2"
)

const memoryID = "memory"

// Machine describes a VM that boots a Linux kernel directly.
type Machine struct {
	Accel   string // "kvm" or "tcg"
	Memory  int64  // bytes, shared with back ends
	Most    int64  // bytes with all that may be plugged in (PlugMemory); 0: none may
	CPUs    int
	Kernel  string
	Initrd  string
	Append  string     // kernel command line
	QMP     string     // socket to listen on for QMP, if any
	Serial  string     // the first serial line: the options of the chardev "serial"
	Link    SerialPort // a virtio port, /dev/vport0p1 in the guest
	Files   []Files    // directories shared by virtiofs
	Devices []Device

	// For a VM that begins as a copy of another, and for that other one. Devices that the other one
	// didn't have must be the last ones, and the guest has to look for them.
	RAM   int    // descriptor of the file that is its memory; 0: QEMU makes one
	State string // file in which SaveState has put the other one's state; "": the VM boots
}

// SerialPort is a virtio port whose host end is an open socket.
type SerialPort struct {
	FD   int // 0 if there is no port
	Name string
}

// Files is a virtiofs file system served on a vhost-user socket.
type Files struct {
	Socket string
	Tag    string
}

// Args is the command line, without the program's name.
func (m *Machine) Args() []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", "q35,sata=off,smbus=off,usb=off,memory-backend=" + memoryID,
		"-accel", m.Accel, "-cpu", cpu(m.Accel), "-smp", fmt.Sprint(m.CPUs),
		"-m", m.memory(),
		"-object", fmt.Sprintf("%s,id=%s,size=%dM,share=on", m.backend(), memoryID,
			m.Memory>>20),
		"-kernel", m.Kernel, "-initrd", m.Initrd, "-append", m.Append,
		"-device", m.port(1, Port), "-device", m.port(2, SparePort),
	}
	args = append(args, m.Link.args()...)
	for i, f := range m.Files {
		args = append(args, f.args(i)...)
	}
	if m.Serial != "" {
		args = append(args, "-chardev", m.Serial, "-serial", "chardev:serial")
	}
	if m.QMP != "" {
		args = append(args, "-qmp", "unix:"+escape(m.QMP)+",server=on,wait=off")
	}
	for _, d := range m.Devices {
		args = append(args, d.Args()...)
	}
	if m.RAM != 0 { // which isn't a part of the state that is saved
		args = append(args, "-global", "migration.x-ignore-shared=on")
	}
	if m.State != "" {
		args = append(args, "-incoming", "file:"+m.State)
	}
	return args
}

// port is an empty PCIe port. The state of one with a power controller says that its device is off,
// so that a copy's own device would be off, too.
func (m *Machine) port(number int, id string) string {
	port := fmt.Sprintf("pcie-root-port,chassis=%d,slot=%d,id=%s", number, number, id)
	if m.RAM != 0 {
		port += ",power_controller_present=off"
	}
	return port
}

// backend is what the memory is made of.
func (m *Machine) backend() string {
	if m.RAM == 0 {
		return "memory-backend-memfd"
	}
	return fmt.Sprintf("memory-backend-file,mem-path=/proc/self/fd/%d", m.RAM)
}

// dimms is how many DIMMs can be plugged in.
const dimms = 4

func (m *Machine) memory() string {
	if m.Most == 0 {
		return fmt.Sprintf("%dM", m.Memory>>20)
	}
	return fmt.Sprintf("%dM,slots=%d,maxmem=%dM", m.Memory>>20, dimms, m.Most>>20)
}

// cpu is the processor. TCG executes "rep movsb" byte by byte: without what makes guests prefer it
// (Intel SDM, "Enhanced REP MOVSB"), they copy memory three times as fast.
func cpu(accel string) string {
	if accel == "kvm" {
		return "host"
	}
	return "max,-erms,-fsrm"
}

func (s SerialPort) args() []string {
	if s.FD == 0 {
		return nil
	}
	return []string{
		"-chardev", fmt.Sprintf("socket,id=link,fd=%d", s.FD),
		"-device", "virtio-serial-pci",
		"-device", "virtserialport,chardev=link,name=" + escape(s.Name),
	}
}

func (f Files) args(i int) []string {
	chardev := fmt.Sprintf("files%d", i)
	return []string{
		"-chardev", "socket,id=" + chardev + ",path=" + escape(f.Socket),
		"-device", "vhost-user-fs-pci,queue-size=1024,chardev=" + chardev + ",tag=" + escape(f.Tag),
	}
}

// escape writes a value so that a comma in it does not end the option.
func escape(value string) string {
	return strings.ReplaceAll(value, ",", ",,")
}
