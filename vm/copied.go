// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/qemu"
	"github.com/paracuda/paracuda/vm/template"
)

// An emulated processor takes some ten seconds to boot, and does the same each time. So a VM of
// QEMU begins as a copy of one that had booted up to where it waits for its job, without the
// devices that depend on the job. With KVM booting takes a second, and a VM boots.

// memoryFD is the descriptor of the VM's memory in QEMU.
const memoryFD = linkFD + 1

// clone is a VM that begins as a copy of another.
type clone struct {
	of      string // the template's name
	catalog template.Catalog
	program string       // QEMU
	booted  qemu.Machine // the VM that the template is made of
	dir     string       // the copy's own
	memory  *os.File     // the copy's own
}

// copies says whether VMs like this one begin as copies. Who wants to see the kernel boot has it
// boot. Memory that can be plugged in isn't part of a template, and QEMU starts no VM with the
// generic device from a state. A QEMU that the user names may be a script that adds devices.
func (c *Config) copies(version qemu.Version) bool {
	if os.Getenv(ownQEMU) != "" {
		return false
	}
	m := &c.Machine
	return m.Accel == TCG && !version.Before(qemu.OldestCopying) && m.Most == 0 &&
		m.Console == nil && !m.Verbose && (c.Device.Socket == "" || c.Device.Carrier == qemu.FS)
}

// beginAsCopy makes the machine begin as a copy; nil if it has to boot. The caller closes the
// copy's memory once QEMU has it.
func beginAsCopy(ctx context.Context, c *Config, program string, version qemu.Version,
	spec *qemu.Machine, dir string) *clone {
	if !c.copies(version) {
		return nil
	}
	t, err := newClone(c.Assets, program, version, spec, dir)
	if err == nil {
		err = t.begin(ctx, spec, c.step)
	}
	if err == nil {
		return t
	}
	if ctx.Err() == nil {
		c.warn(fmt.Sprintf("%v: the VM boots itself, which takes longer", err))
	}
	return nil
}

func newClone(a Assets, program string, version qemu.Version, spec *qemu.Machine,
	dir string) (*clone, error) {
	t := &clone{catalog: template.Catalog{Dir: filepath.Join(a.notes(), "booted")},
		program: program, booted: *spec, dir: dir}
	t.booted.Files, t.booted.Devices, t.booted.QMP, t.booted.RAM = nil, nil, "", memoryFD
	initrd, err := os.ReadFile(spec.Initrd)
	if err != nil {
		return nil, fmt.Errorf("read the initramfs: %w", err)
	}
	unnamed := t.booted
	unnamed.Initrd = "" // its contents count
	// A guest measures its clock against the host's when it boots, and not again.
	t.of = template.Name(bootID(), version.String(), stamp(program), stamp(spec.Kernel),
		string(initrd), fmt.Sprintf("%q", unnamed.Args()))
	return t, nil
}

// stamp names a file's contents without reading them.
func stamp(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return file
	}
	return fmt.Sprint(file, info.Size(), info.ModTime().UnixNano())
}

// begin makes the machine begin as a copy.
func (t *clone) begin(ctx context.Context, spec *qemu.Machine, step func(string)) (err error) {
	if t.memory, err = template.NewMemory(spec.Memory); err != nil {
		return err
	}
	state, err := t.catalog.Copy(t.of, t.memory, spec.Memory,
		func(memory *os.File) ([]byte, error) {
			step("booting a VM that others will begin as copies of")
			return t.boot(ctx, memory)
		})
	file := filepath.Join(t.dir, "state")
	if err == nil {
		err = os.WriteFile(file, state, 0o600)
	}
	if err != nil {
		t.memory.Close()
		return err
	}
	spec.RAM, spec.State = memoryFD, file
	return nil
}

// forget removes the template of a copy that didn't begin.
func (t *clone) forget() error {
	const why = "the VM did not begin as a copy of one that has booted, which is removed: try again"
	return errors.Join(errors.New(why), t.catalog.Remove(t.of))
}

// boot boots a VM up to where it waits for its job, and returns its state.
func (t *clone) boot(ctx context.Context, memory *os.File) ([]byte, error) {
	host, guest, err := socket.Connect(socket.Stream)
	if err != nil {
		return nil, fmt.Errorf("make the link to the VM: %w", err)
	}
	defer host.Close()
	m := t.booted
	m.QMP = filepath.Join(t.dir, "qmp")
	cmd := exec.Command(t.program, m.Args()...)
	cmd.ExtraFiles = []*os.File{guest, memory}
	p, err := startProcess(cmd, nil)
	guest.Close()
	if err != nil {
		return nil, err
	}
	defer p.end(0)
	defer context.AfterFunc(ctx, func() { p.cmd.Process.Kill() })()
	if _, err := greeting(&conn{stream: host}); err != nil {
		p.end(powerOffTime) // what it says last is there then
		return nil, errors.Join(ctx.Err(), fmt.Errorf("%w; its last lines:%s", err, p.log.last()))
	}
	file := filepath.Join(t.dir, "template")
	if err := qemu.SaveState(ctx, qemu.QMP(m.QMP), file); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// ofItsOwn is what a copy is told: the time, and bytes that are its own. guestdriver/init/copied.h
// has the guest's end.
func ofItsOwn(now time.Time) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(now.Unix()))
	b = binary.LittleEndian.AppendUint64(b, uint64(now.Nanosecond()))
	var own [32]byte
	_, _ = rand.Read(own[:]) // never fails
	return append(b, own[:]...)
}
