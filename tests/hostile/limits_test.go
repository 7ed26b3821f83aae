// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/internal/patience"
)

// process is one of a VM's.
type process struct {
	pid  int
	role string
}

// file returns what /proc has of a process under a name.
func (p process) file(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// children lists the processes that a process has started.
func children(pid int) (list []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}

// family lists a process and its descendants.
func family(pid int) (list []int) {
	list = []int{pid}
	for _, child := range children(pid) {
		list = append(list, family(child)...)
	}
	return list
}

// processes are those of a guest whose device has one worker or more, and a mover.
func (g *guest) processes(t *testing.T) (list []process) {
	t.Helper()
	roles := map[string]bool{}
	for _, pid := range family(g.process.Process.Pid) {
		p := process{pid: pid}
		if p.role = strings.Split(p.file(t, "cmdline"), "\x00")[1]; pid == g.process.Process.Pid {
			p.role = "keeper"
		}
		roles[p.role] = true
		list = append(list, p)
	}
	for _, role := range []string{"keeper", "device", "worker", "mover"} {
		if !roles[role] {
			t.Fatalf("there is no %s: %v", role, list)
		}
	}
	return list
}

// started returns a guest that has a channel, and for whose copies there is a mover.
func started(t *testing.T) *guest {
	t.Helper()
	return startedBy(t, func(*exec.Cmd) {})
}

// startedBy is one whose device process is started as prepare has it.
func startedBy(t *testing.T, prepare func(*exec.Cmd)) *guest {
	t.Helper()
	g := newGuestBy(t, prepare)
	if err := g.hello(); err != nil {
		t.Fatal(err)
	}
	c := g.channels[victim]
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	if err := c.move(); err != nil {
		t.Fatal(err)
	}
	return g
}

// move copies a page by reference, which a mover does.
func (c *channel) move() error {
	if _, err := c.offer(20, 20, 0, c.pages); err != nil {
		return err
	}
	address, err := c.device(0)
	if err != nil {
		return err
	}
	_, err = c.must(gpubackend.OpCopyHtoD, address, onMap(20, 0), 4096, 4096, 0, 0)
	return err
}

// TestNobodyLeavesCores looks at the limits of the VM's processes.
func TestNobodyLeavesCores(t *testing.T) {
	limit := regexp.MustCompile(`(?m)^Max core file size +1 +1 +bytes`)
	for _, p := range started(t).processes(t) {
		if limits := p.file(t, "limits"); !limit.MatchString(limits) {
			t.Errorf("the %s has these limits:\n%s", p.role, limits)
		}
	}
}

// TestNobodyLooksIn: a process of the same user that has no rights besides sees nothing of the
// VM's processes.
func TestNobodyLooksIn(t *testing.T) {
	looker, _, err := sandbox.NewStarter(func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	seen := func(pid int) bool {
		c := exec.Command("cat", fmt.Sprintf("/proc/%d/environ", pid))
		if err := looker.Start(c); err != nil {
			t.Fatal(err)
		}
		return c.Wait() == nil
	}
	other := exec.Command("sleep", "60")
	if err := looker.Start(other); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	if !seen(other.Process.Pid) {
		t.Error("another process can't be looked into either")
	}
	for _, p := range started(t).processes(t) {
		if seen(p.pid) && !strings.Contains(p.file(t, "cmdline"), "--watched") {
			t.Errorf("the %s can be looked into", p.role)
		}
	}
}

// TestNobodyHasRights: of the VM's processes only the one that starts the others has a capability,
// to look into its children, and those that serve a guest have a filter of system calls. The keeper
// has what the device process needs to start, and nothing else; it reads nothing of the guest's.
func TestNobodyHasRights(t *testing.T) {
	looks := regexp.MustCompile(`(?m)^CapEff:\t0000000000(08|00)0000$`)
	// SYS_ADMIN, SYS_PTRACE, SETPCAP, DAC_OVERRIDE and CHOWN, for root only.
	starts := regexp.MustCompile(`(?m)^CapPrm:\t0000000000(280103|000000)$`)
	for _, p := range started(t).processes(t) {
		status := p.file(t, "status")
		want := []string{"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "Seccomp:\t2"}
		if p.role == "starter" || p.role == "keeper" {
			want = []string{want[0], want[2]} // for what they start they keep some
			if p.role == "starter" && !looks.MatchString(status) ||
				p.role == "keeper" && !starts.MatchString(status) {
				t.Errorf("the %s has more rights:\n%s", p.role, status)
			}
		}
		for _, line := range want {
			if !strings.Contains(status, line+"\n") {
				t.Errorf("%s: no %q", p.role, line)
			}
		}
	}
}

// TestVMsShareNoNamespace: the workers and the mover of a VM have network, IPC, files and PIDs of
// their own.
func TestVMsShareNoNamespace(t *testing.T) {
	seen := map[string]string{}
	for _, kind := range []string{"net", "ipc", "mnt", "pid"} {
		is, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		seen[is] = "the host"
	}
	for _, vm := range []string{"a VM", "another VM"} {
		g := started(t)
		log, err := os.ReadFile(g.log)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(log), "the host's files") {
			t.Skipf("namespaces can't be made:\n%s", log)
		}
		for _, p := range g.processes(t) {
			if p.role != "worker" && p.role != "mover" {
				continue
			}
			for _, kind := range []string{"net", "ipc", "mnt", "pid"} {
				is, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", p.pid, kind))
				if err != nil {
					t.Fatal(err)
				}
				if owner := seen[is]; owner != "" && owner != vm {
					t.Errorf("the %s of %s is in %s, which is that of %s", p.role, vm, is, owner)
				}
				seen[is] = vm
			}
		}
	}
	if len(seen) != 12 {
		t.Errorf("there are %d namespaces: %v", len(seen), seen)
	}
}

// TestStarterEnds: without the process that starts others the device goes on, and its children end.
func TestStarterEnds(t *testing.T) {
	g := started(t)
	var pids []int
	for _, p := range g.processes(t) {
		switch p.role {
		case "starter":
			if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		case "worker", "mover":
			pids = append(pids, p.pid)
		}
	}
	for _, pid := range pids {
		wait := patience.Of(soon)
		for syscall.Kill(pid, 0) == nil {
			if wait.Over() {
				t.Fatalf("process %d goes on", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	if err := g.channels[witness].start(); err == nil {
		t.Error("a program got the GPU")
	}
	if !g.alive() {
		t.Error("the device process has ended")
	}
}
