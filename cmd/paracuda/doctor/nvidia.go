// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	nvidiaVendor  = "0x10de"
	displayClass  = "0x03"
	installDriver = "apt-get install nvidia-driver"
	loadModules   = "nvidia-modprobe -c 0 -u"
)

var driverVersion = regexp.MustCompile(`\b\d{3,4}\.\d+(\.\d+)?\b`)

// loaded is the version of NVIDIA's modules that are loaded; "": none are.
func (h *Host) loaded() string {
	text, err := os.ReadFile(h.path("/proc/driver/nvidia/version"))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return driverVersion.FindString(line)
}

// gpus counts NVIDIA's GPUs on the bus.
func (h *Host) gpus() (n int) {
	devices, _ := filepath.Glob(h.path("/sys/bus/pci/devices/*"))
	for _, d := range devices {
		if h.word(filepath.Join(d, "vendor")) == nvidiaVendor &&
			strings.HasPrefix(h.word(filepath.Join(d, "class")), displayClass) {
			n++
		}
	}
	return n
}

// driver looks for NVIDIA's GPUs and for the modules that drive them.
func (h *Host) driver(context.Context) Finding {
	version, n := h.loaded(), h.gpus()
	switch {
	case version != "":
		return good(fmt.Sprintf("NVIDIA's driver %s is loaded", version))
	case h.exists("/dev/nvidiactl"): // some sandboxes show no more
		return good("NVIDIA's driver is there, of a version that /proc doesn't tell")
	case n == 0:
		return warn("no NVIDIA GPU: VMs get the software GPU", "") // no command fixes that
	case h.hasModule():
		return bad(fmt.Sprintf("%d NVIDIA GPUs, and their driver isn't loaded", n),
			"modprobe nvidia")
	}
	return bad(fmt.Sprintf("%d NVIDIA GPUs, and no driver for this kernel", n), installDriver)
}

// hasModule says whether NVIDIA's module is there for the running kernel.
func (h *Host) hasModule() bool {
	release := h.word(h.path("/proc/sys/kernel/osrelease"))
	list, err := os.ReadFile(h.path(filepath.Join("/lib/modules", release, "modules.dep")))
	return err == nil && regexp.MustCompile(`(?m)^[^:]*\bnvidia(-current)?\.ko`).Match(list)
}

// Where distributions have the driver's library.
var libraryDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib",
	"/usr/local/nvidia/lib64"}

// library checks that the driver's library is there, in the version of the modules.
func (h *Host) library(context.Context) Finding {
	const name = "libcuda.so.1"
	modules := h.loaded()
	for _, dir := range libraryDirs {
		file, err := filepath.EvalSymlinks(h.path(filepath.Join(dir, name)))
		if err != nil {
			continue
		}
		version := strings.TrimPrefix(filepath.Base(file), "libcuda.so.")
		if modules != "" && driverVersion.MatchString(version) && version != modules {
			return bad(fmt.Sprintf("%s is of version %s, NVIDIA's modules are of %s", name,
				version, modules), "reboot")
		}
		return good(fmt.Sprintf("%s, in %s", filepath.Base(file), dir))
	}
	if modules == "" {
		return good("no " + name + ", and no driver that would need it")
	}
	return bad("NVIDIA's driver is loaded, and "+name+" isn't there",
		"apt-get install libcuda1")
}

// hmmOff makes the driver's module load without HMM.
const hmmOff = "echo options nvidia_uvm uvm_disable_hmm=1 >/etc/modprobe.d/paracuda.conf && " +
	"rmmod nvidia_uvm && modprobe nvidia_uvm"

// hmm checks whether kernels may reach all memory of the process that launches them. Only the open
// modules have that.
func (h *Host) hmm(context.Context) Finding {
	switch h.word(h.path("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm")) {
	case "":
		return good("NVIDIA's driver has none, or isn't loaded")
	case "Y", "1":
		return good("it is off (nvidia_uvm's uvm_disable_hmm)")
	}
	if !strings.Contains(h.text(h.path("/proc/driver/nvidia/version")), "Open Kernel Module") {
		return good("NVIDIA's driver has it with its open modules alone")
	}
	return warn("it isn't switched off: where the kernel has it, workers refuse the GPU, since "+
		"guests' kernels would reach the workers' own memory", hmmOff)
}

// nodes checks whether device processes may open the driver's device nodes.
func (h *Host) nodes(context.Context) []Finding {
	if h.loaded() == "" && !h.exists("/dev/nvidiactl") {
		return []Finding{good("none needed without NVIDIA's driver")}
	}
	names := append([]string{"/dev/nvidiactl", "/dev/nvidia-uvm"}, h.gpuNodes()...)
	var all []Finding
	for _, name := range names {
		if f := h.node(name); f.Level != OK {
			all = append(all, f)
		}
	}
	if all == nil {
		all = []Finding{good(strings.Join(names, " ") + " can be used by all")}
	}
	return all
}

// gpuNodes are the nodes of GPUs, or the first GPU's name if there are none. A container may have
// only some.
func (h *Host) gpuNodes() (names []string) {
	found, _ := filepath.Glob(h.path("/dev/nvidia[0-9]*"))
	for _, path := range found {
		names = append(names, h.inside(path))
	}
	if names == nil {
		names = []string{"/dev/nvidia0"}
	}
	return names
}

func (h *Host) node(name string) Finding {
	path := h.path(name)
	is, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return bad("no "+name, loadModules)
	case err != nil:
		return bad(err.Error(), loadModules)
	case is.Mode().Perm()&0o006 == 0o006:
		return good(name)
	case unix.Access(path, unix.R_OK|unix.W_OK) != nil:
		return bad("no permission for "+name, "chmod 0666 "+name)
	}
	return warn("services, which run as the user paracuda, may not open "+name,
		"chmod 0666 "+name)
}
