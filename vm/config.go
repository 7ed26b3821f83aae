// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/qemu"
)

// Kind names a front end.
type Kind string

// The front ends.
const (
	QEMU Kind = "qemu"
	UML  Kind = "uml"
)

// Virtio ids under which the device is attached when Config names none. The first is Paracuda's
// own: stock QEMU has no name for it, and aborts on it.
const (
	VirtioID     = wire.VirtioId
	VirtioIDQEMU = wire.VirtioIdStock
)

// Config says what to run, and in what machine. Every field but Kind and the program's name may be
// left zero.
type Config struct {
	Kind    Kind
	Machine Machine
	Device  Device
	Driver  GuestDriver
	Program Program

	// told, in one line, why the VM is slower than it should be; may be nil
	Warn func(text string)
	// told what is being done, and "" when the program runs; may be nil
	Step func(what string)

	Assets Assets // where the VM's parts lie; by default FindAssets()
}

// Machine is what the program runs in.
type Machine struct {
	Kernel string // one of Kernels(Kind); by default the first
	Memory int64  // bytes of RAM; by default 1 GiB
	Most   int64  // bytes with all that may be plugged into QEMU while it runs; 0: none may
	CPUs   int    // by default as many as the host has, at most 8

	FileSystems []string  // sockets of virtiofsd for User Mode Linux; each gets its own tag
	QMPSocket   string    // where QEMU takes QMP connections, if anywhere
	Accel       string    // QEMU's accelerator, "kvm" or "tcg"; "": found by trial
	Console     io.Writer // gets the kernel's messages too
	Verbose     bool      // the kernel logs all it does
}

// Device is the vhost-user device that the machine has.
type Device struct {
	Socket string // "": there is no device
	// how QEMU carries its queues; qemu.FS, or qemu.Generic if there is a VirtioID
	Carrier    qemu.Carrier
	VirtioID   int // VirtioID or VirtioIDQEMU
	Queues     int // virtqueues that QEMU asks of the device; by default 8
	ConfigSize int // bytes of its config space for QEMU; by default wire.ConfigRoom
}

// GuestDriver is the device's driver in the guest.
type GuestDriver struct {
	Modules []Module // loaded in this order before the program starts
	File    string   // in /dev, that must appear once they are loaded
	LibDir  string   // first in LD_LIBRARY_PATH; also seen where programs look without that
}

// Module is a kernel module to load in the VM, with its parameters.
type Module struct {
	File       string
	Parameters string
}

// Program is what runs.
type Program struct {
	Name string   // looked up in PATH, as in a shell
	Args []string // without its name
	Env  []string // NAME=VALUE; by default os.Environ()
	Dir  string   // current directory, which the VM must see; by default the caller's

	// Write are directories in which the host keeps what it writes. What it writes in the current
	// directory, the home directory and /tmp ends with the VM; elsewhere it can't write.
	Write  []string
	placed []ownDir

	// Its streams. A nil Stdin is empty, and the others are dropped.
	// A Stdin that never ends is read until its next data even after Run.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// complete fills in what the caller left open.
func (c Config) complete() (Config, error) {
	if c.Program.Name == "" {
		return c, errors.New("run a VM: no program is named")
	}
	if c.Kind != QEMU && c.Kind != UML {
		return c, fmt.Errorf("run a VM: no front end %q: use qemu or uml", c.Kind)
	}
	c.Machine.complete(c.Kind)
	c.Device.complete(c.Kind)
	if c.Assets == (Assets{}) {
		c.Assets = FindAssets()
	}
	err := c.Program.complete(c.Kind, c.Driver.LibDir)
	return c, err
}

func (m *Machine) complete(kind Kind) {
	setDefault(&m.Kernel, kernels[kind][0])
	setDefault(&m.Memory, 1<<30)
	setDefault(&m.CPUs, min(runtime.NumCPU(), 8))
}

func (d *Device) complete(kind Kind) {
	setDefault(&d.Queues, 8)
	setDefault(&d.ConfigSize, wire.ConfigRoom)
	if d.VirtioID != 0 {
		setDefault(&d.Carrier, qemu.Generic)
	}
	setDefault(&d.Carrier, qemu.FS)
	if kind == QEMU {
		setDefault(&d.VirtioID, VirtioIDQEMU)
	}
	setDefault(&d.VirtioID, VirtioID)
}

func (p *Program) complete(kind Kind, libDir string) (err error) {
	if p.Env == nil {
		p.Env = os.Environ()
	}
	p.Env = guestEnv(p.Env, libDir)
	if p.Dir == "" {
		if p.Dir, err = os.Getwd(); err != nil {
			return fmt.Errorf("run a VM: %w", err)
		}
	}
	p.placed, err = p.places(kind)
	return err
}

func (c *Config) step(what string) {
	if c.Step != nil {
		c.Step(what)
	}
}

func (c *Config) warn(text string) {
	if c.Warn != nil {
		c.Warn(text)
	}
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// hostOnly are variables that name things of the host which the VM lacks. CUDA_VISIBLE_DEVICES
// chooses among the host's GPUs for the VM; inside they have other numbers.
var hostOnly = []string{"CUDA_VISIBLE_DEVICES", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY",
	"SSH_AUTH_SOCK", "TMPDIR", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR"}

// tritonPath names the directory in which Triton looks for libcuda.so.
const tritonPath = "TRITON_LIBCUDA_PATH"

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// guestEnv is the environment env, made fit for the VM.
func guestEnv(env []string, libDir string) []string {
	values := map[string]string{"PATH": defaultPath, "HOME": "/root", "TERM": "dumb"}
	order := []string{"PATH", "HOME", "TERM"}
	for _, e := range env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			continue
		}
		if _, seen := values[name]; !seen {
			order = append(order, name)
		}
		values[name] = value
	}
	for _, name := range hostOnly {
		delete(values, name)
	}
	if libDir != "" {
		prepend(values, &order, "LD_LIBRARY_PATH", libDir)
		// Without it Triton links against the library that ldconfig knows.
		if _, seen := values[tritonPath]; !seen {
			order = append(order, tritonPath)
			values[tritonPath] = libDir
		}
	}
	return join(values, order)
}

func prepend(values map[string]string, order *[]string, name, first string) {
	rest, seen := values[name]
	if !seen {
		*order = append(*order, name)
	}
	values[name] = strings.TrimSuffix(first+":"+rest, ":")
}

func join(values map[string]string, order []string) []string {
	var env []string
	for _, name := range order {
		if value, ok := values[name]; ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
