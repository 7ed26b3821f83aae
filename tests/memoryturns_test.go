// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The VMs of these tests run a program that computes in its memory and compares the results. It
// takes 44 to 74 MiB: small allocations share a segment of 2 to 32 MiB, depending on how much is
// free (package devmem), and 8 MiB are its context, which can't be moved out. So a GPU of 86 MiB
// has room for either of two VMs beside the other one's context, and never for both.

// keeper starts such a VM.
func (h *sharedHost) keeper(name string, settings ...string) (b *background, control string) {
	h.T.Helper()
	control = filepath.Join(h.T.TempDir(), "control")
	args := []string{paracuda, "run", "--vm", "uml", "--gpu", "soft", "--mem", "256M",
		"--arbiter", h.socket, "--name", name, "--control", control, "--set", "soft-memory=86M"}
	for _, setting := range settings {
		args = append(args, "--set", setting)
	}
	return inBackground(h.T, append(args, "--", filepath.Join(programs, "keeps"), "0")...), control
}

// launches is the number of launches of a VM's programs so far, as its device process counts them.
func launches(control string) uint64 {
	a := statistics(control)
	if a == nil {
		return 0 // not there yet
	}
	return a.Stats["launches"]
}

// tell logs what the arbiter and the VMs say.
func (h *sharedHost) tell(vms map[string]*background, controls map[string]string) {
	h.T.Helper()
	show := func(args ...string) {
		r := command(h.T, time.Minute, root, append([]string{paracuda}, args...)...)
		h.T.Logf("%s:\n%s%s", strings.Join(args, " "), r.stdout, r.stderr)
	}
	show("top", "--arbiter", h.socket, "--json")
	h.T.Logf("the arbiter:%s", tail(h.said()))
	for name, control := range controls {
		show("stats", control)
		h.T.Logf("VM %s:%s", name, tail(vms[name].said()))
	}
}

// TestMemoryInTurns: two VMs compute in turns. They go on when the arbiter is killed, without one,
// and with the next one.
func TestMemoryInTurns(t *testing.T) {
	boots(t)
	h := newSharedHost(t)
	vms, controls := map[string]*background{}, map[string]string{}
	for _, name := range []string{"a", "b"} {
		vms[name], controls[name] = h.keeper(name, "memory-mode=swap")
	}
	t.Cleanup(func() {
		if t.Failed() {
			h.tell(vms, controls)
		}
	})
	alive := func() {
		t.Helper()
		for name, b := range vms {
			select {
			case <-b.done:
				t.Fatalf("VM %s has ended:%s", name, tail(b.said()))
			default:
			}
		}
	}
	inTurns := func(what string) {
		t.Helper()
		until(t, 3*time.Minute, what+": both move", func() bool {
			alive()
			all := h.vms()
			return all["a"].Swaps >= 1 && all["b"].Swaps >= 1
		})
	}
	inTurns("first")
	r := command(t, time.Minute, root, paracuda, "top", "--arbiter", h.socket, "--once")
	if !strings.Contains(r.stdout, "PLACE") {
		t.Errorf("top has no column PLACE:%s", tail(r.stdout))
	}
	h.signal(syscall.SIGKILL)
	<-h.done
	for name, control := range controls {
		before := launches(control)
		until(t, time.Minute, name+" goes on without an arbiter", func() bool {
			alive()
			return launches(control) > before
		})
	}
	h.start()
	inTurns("again")
}

// TestMemoryThatStays: a VM without memory-mode=swap keeps its memory. A VM with it gets no more
// than what is left.
func TestMemoryThatStays(t *testing.T) {
	boots(t)
	h := newSharedHost(t)
	_, control := h.keeper("stays")
	until(t, time.Minute, "it computes", func() bool {
		return launches(control) > 100 && h.vms()["stays"].Figures.Memory["window"] > 32<<20
	})
	b, _ := h.keeper("moves", "memory-mode=swap")
	if !awaits(b.done, time.Minute) {
		t.Fatal("VM moves goes on, want that its program gets no memory")
	}
	if !strings.Contains(b.said(), "cudaErrorMemoryAllocation") {
		t.Errorf("VM moves: want cudaErrorMemoryAllocation:%s", tail(b.said()))
	}
	before := launches(control)
	until(t, time.Minute, "it goes on", func() bool { return launches(control) > before })
}
