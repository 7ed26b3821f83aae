// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"

	"github.com/paracuda/paracuda/internal/fix"
	"github.com/paracuda/paracuda/qemu"
)

const installQEMU = "apt-get install qemu-system-x86"

// checkQEMU checks whether there is a QEMU, its version, and which of its devices can carry our
// queues.
func checkQEMU(ctx context.Context, program string) []Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	path, err := exec.LookPath(program)
	if err != nil {
		return []Finding{bad(fmt.Sprintf("no program %s here", program), installQEMU)}
	}
	version, err := qemu.CheckVersion(ctx, path, qemu.FS)
	if err != nil {
		return []Finding{bad(err.Error(), installQEMU)}
	}
	return []Finding{good(fmt.Sprintf("QEMU %v, %s", version, path)), carriers(ctx, path)}
}

// QEMU's devices that can carry our queues, as it lists them.
const (
	carrierFS      = `name "vhost-user-fs-pci"`
	carrierGeneric = `name "vhost-user-test-device-pci"`
)

func carriers(ctx context.Context, program string) Finding {
	list, err := exec.CommandContext(ctx, program, "-device", "help").Output()
	switch text := string(list); {
	case err != nil:
		return bad(fmt.Sprintf("%s doesn't list its devices: %v", program, err), installQEMU)
	case !strings.Contains(text, carrierFS):
		return bad("QEMU has no vhost-user-fs-pci: it was built without it", installQEMU)
	case !strings.Contains(text, carrierGeneric):
		return good("it has vhost-user-fs-pci, and not vhost-user-test-device-pci, " +
			"which is for --carrier generic alone")
	}
	return good("it has vhost-user-fs-pci and vhost-user-test-device-pci")
}

// kvm checks whether this user's VMs may use the processor's virtualization.
func (h *Host) kvm(context.Context) Finding {
	const device = "/dev/kvm"
	err := h.Open(h.path(device))
	switch {
	case err == nil:
		cpuinfo := strings.NewReader(h.text(h.path("/proc/cpuinfo")))
		if err := qemu.CheckProcessor(cpuinfo); err != nil {
			return warn(fmt.Sprintf("%s runs no usual kernel (%v, or its firmware or host keeps "+
				"them off): VMs run emulated, many times slower", device, err),
				"lscpu | grep -i virtualization")
		}
		return good(device + " can be used")
	case errors.Is(err, fs.ErrNotExist):
		return warn("no "+device+": VMs run emulated, many times slower", fix.KVM(err))
	case errors.Is(err, fs.ErrPermission):
		return bad("no permission for "+device, fix.KVM(err))
	}
	return bad(err.Error(), fix.KVM(err))
}

// sharedMemory checks whether memory can be shared as guest RAM is.
func (h *Host) sharedMemory(context.Context) Finding {
	if err := h.Memfd(); err != nil {
		return bad("no device process starts: "+err.Error(), fix.Memfd(h.Root, err))
	}
	return good("memfd can be made")
}
