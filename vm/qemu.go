// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/paracuda/paracuda/qemu"
)

const (
	qemuLink = "/dev/vport0p1" // the first port of the first virtio-serial device
	filesTag = "host"
	linkFD   = 3
)

// startQEMU starts QEMU with its end of the link, and what serves it the host's
// files.
func startQEMU(ctx context.Context, c *Config, dir string, linkEnd *os.File) (*machine, error) {
	program, err := c.Assets.QEMU()
	if err != nil {
		return nil, err
	}
	version, err := qemu.CheckVersion(ctx, program, c.Device.Carrier)
	if err != nil {
		return nil, err
	}
	if c.Machine.Accel == "" {
		t := trial{assets: c.Assets, qemu: program, device: kvmDevice,
			cpuinfo: processors, load: loadFile, limit: trialTime, warn: c.warn,
			step: c.step}
		c.Machine.Accel = t.accelerator(ctx)
	}
	spec, err := qemuMachine(c, dir)
	if err != nil {
		return nil, err
	}
	accel := strings.ToUpper(c.Machine.Accel)
	m := &machine{frontEnd: fmt.Sprintf("QEMU %v (%s)", version, accel)}
	files := []*os.File{linkEnd}
	if m.copied = beginAsCopy(ctx, c, program, version, spec, dir); m.copied != nil {
		defer m.copied.memory.Close()
		files = append(files, m.copied.memory)
		c.step("starting a copy of a VM that has booted (" + accel + ")")
	} else {
		c.step("booting the VM (" + accel + ")")
	}
	if m.helpers, err = shareFiles(c.Assets, c.Program.placed, spec.Files); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, spec.Args()...)
	cmd.ExtraFiles = files
	if m.process, err = startProcess(cmd, c.Machine.Console); err != nil {
		m.release()
		return nil, err
	}
	return m, nil
}

// qemuMachine describes the VM, and puts its initramfs in dir.
func qemuMachine(c *Config, dir string) (*qemu.Machine, error) {
	kernelDir, err := c.Assets.KernelDir(QEMU, c.Machine.Kernel)
	if err != nil {
		return nil, err
	}
	initFile, err := c.Assets.Init()
	if err != nil {
		return nil, err
	}
	image, err := initramfs(initFile, kernelDir)
	if err != nil {
		return nil, err
	}
	initrd := filepath.Join(dir, "initramfs")
	if err := os.WriteFile(initrd, image, 0o600); err != nil {
		return nil, fmt.Errorf("make the initramfs: %w", err)
	}
	own := &c.Machine
	m := &qemu.Machine{
		Accel: own.Accel, Memory: own.Memory, Most: own.Most, CPUs: own.CPUs,
		Kernel: kernelImage(kernelDir), Initrd: initrd, Append: qemuAppend(own),
		QMP:    own.QMPSocket,
		Serial: "stdio,id=serial,signal=off",
		Link:   qemu.SerialPort{FD: linkFD, Name: "org.paracuda.link"},
		Files:  []qemu.Files{{Socket: filepath.Join(dir, "files"), Tag: filesTag}},
	}
	for _, p := range c.Program.placed {
		if p.keep {
			m.Files = append(m.Files, qemu.Files{Socket: filepath.Join(dir, p.tag), Tag: p.tag})
		}
	}
	if d := &c.Device; d.Socket != "" {
		m.Devices = []qemu.Device{{Socket: d.Socket, Carrier: d.Carrier, VirtioID: d.VirtioID,
			Queues: d.Queues, ConfigSize: d.ConfigSize}}
	}
	return m, nil
}

// kernelImage is the kernel's file, the unpacked one if there is one.
func kernelImage(dir string) string {
	if file := filepath.Join(dir, "vmlinux"); exists(file) {
		return file
	}
	return filepath.Join(dir, "vmlinuz")
}

// qemuAppend is the kernel's command line. It turns off what costs an emulated processor much time
// and is of no use in a VM of a few seconds.
func qemuAppend(m *Machine) string {
	quiet := " quiet"
	if m.Verbose {
		quiet = ""
	}
	if m.Most != 0 {
		quiet += " memhp_default_state=online_movable" // so that it can be taken out
	}
	return "console=ttyS0 panic=-1 mitigations=off tsc=reliable no_timer_check" +
		" cryptomgr.notests audit=0 apparmor=0 8250.nr_uarts=1" + quiet +
		" -- link=" + qemuLink + " files=" + filesTag
}

// shareFiles starts what serves the host's files: all of them for reading, and
// the places that the program can write to.
func shareFiles(a Assets, placed []ownDir, files []qemu.Files) ([]*process, error) {
	dirs := map[string]string{}
	for _, p := range placed {
		dirs[p.tag] = p.dir
	}
	var shares []*process
	for _, f := range files {
		what := []string{"--shared-dir=/", "--readonly", "--cache=always"}
		if f.Tag != filesTag {
			what = []string{"--shared-dir=" + dirs[f.Tag], "--cache=auto"}
		}
		p, err := shareDir(a, f.Socket, what)
		if err != nil {
			(&machine{helpers: shares}).release()
			return nil, err
		}
		shares = append(shares, p)
	}
	return shares, nil
}

// shareDir starts a virtiofsd with these options for whoever connects to the socket.
func shareDir(a Assets, socket string, what []string) (*process, error) {
	program, err := a.Virtiofsd()
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		return nil, fmt.Errorf("share the host's files: %w", err)
	}
	defer listener.Close()
	listener.SetUnlinkOnClose(false)
	file, err := listener.File()
	if err != nil {
		return nil, fmt.Errorf("share the host's files: %w", err)
	}
	defer file.Close()
	cmd := exec.Command(program, append(what, "--fd=3", "--sandbox=none",
		"--inode-file-handles=never", "--log-level=error")...)
	cmd.ExtraFiles = []*os.File{file}
	return startProcess(cmd, nil)
}
