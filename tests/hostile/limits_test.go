// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/sandbox"
	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/internal/patience"
)

// process is one of a VM's processes on the host.
type process struct {
	pid  int
	role string
}

// file returns the text of a process's file in /proc.
func (p process) file(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// processes are the processes of a guest's device. There must be at least one worker, and a mover.
func (g *rig) processes(t *testing.T) (list []process) {
	t.Helper()
	roles := map[string]bool{}
	for _, pid := range leaks.Family(g.process.Process.Pid) {
		p := process{pid: pid}
		if p.role = strings.Split(p.file(t, "cmdline"), "\x00")[1]; pid == g.process.Process.Pid {
			p.role = "keeper"
		}
		roles[p.role] = true
		list = append(list, p)
	}
	for _, role := range []string{"keeper", "device", "worker", "mover"} {
		if !roles[role] {
			t.Fatalf("there is no process %s: %v", role, list)
		}
	}
	return list
}

// started returns a guest that has an open channel and a mover.
func started(t *testing.T) *rig {
	t.Helper()
	return startedBy(t, func(*exec.Cmd) {})
}

// startedBy is started, where prepare may change how the device process is started.
func startedBy(t *testing.T, prepare func(*exec.Cmd)) *rig {
	t.Helper()
	g := newGuestBy(t, prepare)
	if err := g.hello(0); err != nil {
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

// move copies a page by reference: the mover does it.
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

// TestNobodyLeavesCores: the limits of a VM's processes allow no core dumps.
func TestNobodyLeavesCores(t *testing.T) {
	limit := regexp.MustCompile(`(?m)^Max core file size +1 +1 +bytes`)
	for _, p := range started(t).processes(t) {
		if limits := p.file(t, "limits"); !limit.MatchString(limits) {
			t.Errorf("the %s: want a core file size of 1, it has these limits:\n%s", p.role, limits)
		}
	}
}

// TestNobodyLooksIn: another process of the same user, without further rights, can't look into the
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
		t.Error("the test's own process can't be looked into either, so this shows nothing")
	}
	for _, p := range started(t).processes(t) {
		if seen(p.pid) && !strings.Contains(p.file(t, "cmdline"), "--watched") {
			t.Errorf("the environment of the %s can be read, want that it can't", p.role)
		}
	}
}

// TestNobodyHasRights: of the VM's processes only the starter has an effective capability, to look
// into its children, and all have a system call filter. The keeper may only have the capabilities
// that the device process needs to start. It reads nothing of the guest's.
func TestNobodyHasRights(t *testing.T) {
	looks := regexp.MustCompile(`(?m)^CapEff:\t0000000000(08|00)0000$`)
	// SYS_ADMIN, SYS_PTRACE, SETPCAP, DAC_OVERRIDE and CHOWN if it is root's, otherwise none.
	starts := regexp.MustCompile(`(?m)^CapPrm:\t0000000000(280103|000000)$`)
	for _, p := range started(t).processes(t) {
		status := p.file(t, "status")
		want := []string{"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "Seccomp:\t2"}
		if p.role == "starter" || p.role == "keeper" {
			want = []string{want[0], want[2]} // they keep some for the processes that they start
			if p.role == "starter" && !looks.MatchString(status) ||
				p.role == "keeper" && !starts.MatchString(status) {
				t.Errorf("the %s has more capabilities than it may:\n%s", p.role, status)
			}
		}
		for _, line := range want {
			if !strings.Contains(status, line+"\n") {
				t.Errorf("the status of the %s lacks %q:\n%s", p.role, line, status)
			}
		}
	}
}

// TestVMsShareNoNamespace: a VM's workers and mover have namespaces of their own for network, IPC,
// mounts and PIDs.
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
					t.Errorf("the %s of %s is in %s, which belongs to %s", p.role, vm, is, owner)
				}
				seen[is] = vm
			}
		}
	}
	if len(seen) != 12 {
		t.Errorf("there are %d namespaces, want 12, 4 each of the host and two VMs: %v", len(seen),
			seen)
	}
}

// TestStarterEnds: if the starter ends, its workers and mover end, and the next programs get the
// GPU by another one.
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
				t.Fatalf("process %d, a worker or mover, goes on without the starter", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	if err := g.channels[witness].start(); err != nil {
		t.Errorf("a program begins just then: %v", err)
	}
	g.rights(t)
}
