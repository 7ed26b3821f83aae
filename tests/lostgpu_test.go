// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLostGPU: a GPU that two VMs share falls off the bus. The programs of both get CUDA's error,
// and the log says so. The VMs' other GPU and a third VM go on. A software GPU is each VM's own
// behind its name, so each of the two has to be told that it has lost it.
func TestLostGPU(t *testing.T) {
	boots(t)
	h := newSharedHost(t)
	vm := func(name string) (b *background, control string) {
		control = filepath.Join(t.TempDir(), "control")
		return inBackground(t, paracuda, "run", "--vm", "uml", "--gpu", "soft:2", "--mem", "512M",
			"--arbiter", h.socket, "--name", name, "--control", control,
			"--", filepath.Join(programs, "lostgpu"), "0"), control
	}
	has, control := vm("has")
	hasToo, controlToo := vm("has-too")
	other, otherControl := vm("other")
	for name, b := range map[string]*background{"has": has, "has-too": hasToo, "other": other} {
		until(t, time.Minute, name+" computes", func() bool {
			return strings.Contains(b.said(), "both compute")
		})
	}
	for _, c := range []string{control, controlToo} {
		if r := command(t, time.Minute, root, paracuda, "set", c, "soft-lost=1"); r.exit != 0 {
			t.Fatal(r.stderr)
		}
	}
	for name, b := range map[string]*background{"has": has, "has-too": hasToo} {
		<-b.done
		for _, want := range []string{
			"GPU 1: cudaErrorUnknown\n",
			"create(&c, 0, 1): CUDA_ERROR_UNKNOWN (999)\nGPU 0 has gone on: yes\n",
			`error="CUDA_ERROR_UNKNOWN (999)" gpu=1`,
		} {
			if !strings.Contains(b.said(), want) {
				t.Errorf("the output of VM %s lacks %q:%s", name, want, tail(b.said()))
			}
		}
	}
	before := launches(otherControl)
	until(t, time.Minute, "the other VM goes on", func() bool {
		return launches(otherControl) > before
	})
}

// TestProbeTellsOfLostGPU: probe names a lost GPU as long as its VM is there. The VM has its GPUs
// alone, so another VM doesn't start.
func TestProbeTellsOfLostGPU(t *testing.T) {
	boots(t)
	h := newSharedHost(t)
	control := filepath.Join(t.TempDir(), "control")
	script := filepath.Join(programs, "lostgpu") + " 0; sleep 1000"
	b := inBackground(t, paracuda, "run", "--vm", "uml", "--gpu", "soft:2", "--mem", "512M",
		"--arbiter", h.socket, "--name", "has", "--control", control, "--set", "exclusive=on",
		"--", "sh", "-c", script)
	until(t, time.Minute, "it computes", func() bool {
		return strings.Contains(b.said(), "both compute")
	})
	command(t, time.Minute, root, paracuda, "set", control, "soft-lost=1")
	var said string
	until(t, time.Minute, "probe tells of it", func() bool {
		said = command(t, time.Minute, root, paracuda, "probe", "--arbiter", h.socket).stdout
		return strings.Contains(said, "soft-1 is broken, or gone, since ") &&
			strings.Contains(said, ": CUDA_ERROR_UNKNOWN (999)\n")
	})
	if n := strings.Count(said, "    VM has: has "); n != 1 ||
		!strings.Contains(said, "exclusive=on") {
		t.Errorf("probe: want one line on VM has, with exclusive=on:\n%s", said)
	}
	r := command(t, time.Minute, root, paracuda, "run", "--vm", "uml", "--gpu", "soft", "--arbiter",
		h.socket, "--name", "other", "--", "true")
	if r.exit != 1 || !strings.Contains(r.stderr, "GPU soft is VM has's alone (exclusive=on)") {
		t.Errorf("another VM: exit code %d, %q, want 1, and that VM has has the GPU alone", r.exit,
			r.stderr)
	}
}
