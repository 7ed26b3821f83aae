// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// atOnce is how many VMs boot at the same time.
const atOnce = 4

// TestManyVMs starts many VMs without programs on one GPU: PARACUDA_VMS, or 6. They have as many
// warm workers as the arbiter allows, and no process on the GPU when they have been idle for a
// while. Another VM computes beside them.
func TestManyVMs(t *testing.T) {
	boots(t)
	count, err := strconv.Atoi(setting("PARACUDA_VMS", "6"))
	if err != nil || count < 1 {
		t.Fatalf("PARACUDA_VMS: want a number of VMs: %v", err)
	}
	const allowed = 2
	h := newSharedHost(t, "--warm-workers", fmt.Sprint(allowed))
	vms := map[int]bool{} // by the pid of paracuda run
	var all []*background
	warm := 0 // workers, at the same time: a VM may be idle before the last one joins
	joined := func(n int) func() bool {
		return func() bool {
			warm = max(warm, processesOf(vms, "worker"))
			for i, vm := range all {
				select {
				case <-vm.done:
					t.Fatalf("VM %d has ended: %s", i, tail(vm.said()))
				default:
				}
			}
			return len(h.vms()) >= n
		}
	}
	for i := range count {
		until(t, 2*time.Minute, "VMs join", joined(i-atOnce+1))
		vm := inBackground(t, paracuda, "run", "--vm", "uml", "--gpu", "soft", "--mem", "128M",
			"--arbiter", h.socket, "--name", fmt.Sprint("idle", i), "--set", "warm-workers=1",
			"--set", "idle-time=20s", "--", "/bin/sleep", "3600")
		vms[vm.cmd.Process.Pid] = true
		all = append(all, vm)
	}
	until(t, 2*time.Minute, "all VMs have joined", joined(count))
	until(t, time.Minute, "there are warm workers", func() bool {
		warm = max(warm, processesOf(vms, "worker"))
		return warm >= allowed
	})
	until(t, 2*time.Minute, "idle VMs have no process on the GPU", func() bool {
		workers := processesOf(vms, "worker")
		warm = max(warm, workers)
		return workers+processesOf(vms, "mover") == 0
	})
	if warm > 2*allowed { // as many may be about to end
		t.Errorf("%d warm workers at the same time, want %d", warm, allowed)
	}
	h.works(h.vm("busy", nil, "2000", "40"), "busy")
	for name, v := range h.vms() {
		if n := len(v.Figures.Processes); n > 0 != (name == "busy") {
			t.Errorf("VM %s has %d processes on the GPU, want some of VM busy only", name, n)
		}
	}
}

// processesOf counts the processes of a role that descend from these.
func processesOf(above map[int]bool, role string) (n int) {
	parents, found := map[int]int{}, []int(nil)
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, _ := os.ReadFile(file)
		words := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if len(words) < 2 || words[0] == "Z" {
			continue // it has ended
		}
		parents[pid], _ = strconv.Atoi(words[1])
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if words := strings.Split(string(line), "\x00"); len(words) > 1 && words[1] == role {
			found = append(found, pid)
		}
	}
	for _, pid := range found {
		for ; pid > 1; pid = parents[pid] {
			if above[pid] {
				n++
				break
			}
		}
	}
	return n
}
