// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
)

// Where the host's package has things.
const (
	arbiterFile = "/etc/paracuda/arbiter.toml"
	vmFiles     = "/etc/paracuda/vms/*.conf"
	vmControls  = "/run/paracuda/*/control.sock"
	vmListeners = "/run/paracuda/*.sock"

	startArbiter   = "systemctl start paracuda-arbiter"
	restartArbiter = "systemctl restart paracuda-arbiter"
)

// mostVMs bounds how many VMs' files and sockets are looked at.
const mostVMs = 1000

// checkArbiter checks that the arbiter answers.
func checkArbiter(path string) Finding {
	vms, err := client.List(path)
	switch {
	case err == nil:
		return good(fmt.Sprintf("an arbiter answers, with %d VMs", len(vms)))
	case errors.Is(err, client.ErrNone) && path == "":
		return warn("none runs: VMs don't share a GPU by turns", startArbiter)
	case errors.Is(err, client.ErrNone):
		return bad("none answers at "+path, "paracuda arbiter --socket "+path)
	case mayNot(path):
		return bad(err.Error(), "usermod -aG kvm $USER")
	}
	return bad(err.Error(), restartArbiter)
}

// mayNot says whether this user has no permission for the arbiter.
func mayNot(path string) bool {
	for _, p := range client.Paths(path) {
		c, err := link.Dial(p, patience)
		if err == nil {
			c.Close()
			return false
		}
		if errors.Is(err, unix.EACCES) {
			return true
		}
	}
	return false
}

func (h *Host) arbiterConfig(context.Context) Finding {
	_, err := policy.ReadFile(h.path(arbiterFile))
	switch {
	case err == nil:
		return good(arbiterFile + " can be read")
	case errors.Is(err, fs.ErrNotExist):
		return good("none: every VM has the same share")
	}
	return bad(err.Error(), "editor "+arbiterFile+" && systemctl reload paracuda-arbiter")
}

// some are the files of a pattern, and what to say where there are none or too many.
func (h *Host) some(pattern, none string) (files []string, said []Finding) {
	files, _ = filepath.Glob(h.path(pattern))
	switch {
	case len(files) == 0:
		said = []Finding{good(none)}
	case len(files) > mostVMs:
		said = []Finding{warn(fmt.Sprintf("%d files %s: looked at the first %d", len(files),
			pattern, mostVMs), "ls "+pattern)}
		files = files[:mostVMs]
	}
	return files, said
}

// vmConfigs reads each VM's file as its device process does.
func (h *Host) vmConfigs(read func(file string) error) []Finding {
	files, all := h.some(vmFiles, "no VM has a file in /etc/paracuda/vms")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".conf")
		own := oneLine(h.inside(file))
		if err := read(file); err != nil {
			all = append(all, bad(oneLine(err.Error()), "editor "+own))
			continue
		}
		all = append(all, good(fmt.Sprintf("%s: %s can be read", oneLine(name), own)))
	}
	return all
}

// listeners checks who may connect to the VMs' sockets. It doesn't connect: that starts the
// service.
func (h *Host) listeners(context.Context) []Finding {
	files, all := h.some(vmListeners, "no VM's socket waits for its QEMU")
	for _, file := range files {
		if filepath.Base(file) != filepath.Base(client.HostPath) {
			all = append(all, h.listener(file))
		}
	}
	if all == nil {
		all = []Finding{good("no VM's socket waits for its QEMU")}
	}
	return all
}

// listener checks one socket. Connecting takes the right to write.
func (h *Host) listener(file string) Finding {
	own := oneLine(h.inside(file))
	is, err := os.Lstat(file)
	switch {
	case err != nil:
		return warn(oneLine(err.Error()), "ls -l "+own)
	case is.Mode().Type() != fs.ModeSocket:
		return bad(own+" is no socket", "rm "+own)
	case is.Mode().Perm()&0o022 == 0:
		return bad(fmt.Sprintf("its owner alone may connect to %s, which has mode %#o", own,
			is.Mode().Perm()), "chmod 0660 "+own)
	}
	return good(fmt.Sprintf("%s has mode %#o", own, is.Mode().Perm()))
}

// vmSockets asks each device process that a service runs.
func (h *Host) vmSockets() []Finding {
	files, all := h.some(vmControls, "no VM's service runs, or this user doesn't see it")
	for _, file := range files {
		all = append(all, vmSocket(file)...)
	}
	return all
}

// mostTrouble bounds what is believed of one device process.
const mostTrouble = 10

// vmSocket asks one device process, which also knows what keeps its VM's driver from the device:
// how many queues QEMU gives it, whether it shares the VM's memory, whether a driver has come.
func vmSocket(file string) (all []Finding) {
	name := oneLine(filepath.Base(filepath.Dir(file)))
	a, err := admin.Ask(file, admin.Request{Stats: true})
	if err != nil {
		return []Finding{mute(name, err)}
	}
	for _, t := range a.Trouble[:min(len(a.Trouble), mostTrouble)] {
		all = append(all, bad("VM "+name+": "+oneLine(t.Found), oneLine(t.Fix)))
	}
	if all == nil {
		all = []Finding{good(fmt.Sprintf("VM %s has GPU %s and %d programs", name, oneLine(a.GPU),
			len(a.Programs)))}
	}
	return all
}

// mute is the finding of a device process that doesn't answer.
func mute(name string, err error) Finding {
	switch {
	case errors.Is(err, unix.EACCES):
		return warn("VM "+name+": this user may not ask it", "usermod -aG paracuda $USER")
	case errors.Is(err, unix.ECONNREFUSED):
		return bad("VM "+name+": its device process has ended", "systemctl restart paracuda@"+
			name+".socket")
	}
	return bad(fmt.Sprintf("VM %s: %s", name, oneLine(err.Error())),
		"journalctl -u paracuda@"+name)
}

// processes looks for our processes whose program was replaced since they began.
func (h *Host) processes(context.Context) []Finding {
	links, _ := filepath.Glob(h.path("/proc/[0-9]*/exe"))
	old := 0
	for _, l := range links {
		to, err := os.Readlink(l)
		if err == nil && filepath.Base(to) == "paracuda (deleted)" {
			old++
		}
	}
	if old > 0 {
		return []Finding{warn(fmt.Sprintf("%d processes are of a paracuda that was replaced: "+
			"VMs keep it until they end", old), restartArbiter)}
	}
	return []Finding{good("none is of a paracuda that was replaced")}
}

// compute runs a computation on the GPU.
func compute(ctx context.Context, do func(context.Context) (string, error)) Finding {
	gpu, err := do(ctx)
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "uvm_disable_hmm"):
		return bad(oneLine(err.Error()), hmmOff)
	default:
		return bad(oneLine(err.Error()), "paracuda probe")
	}
	return good("right, on " + oneLine(gpu))
}
