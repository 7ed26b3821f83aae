// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/patience"
	"github.com/paracuda/paracuda/tests/hostile/takenover"
)

// TestWorkersMemory: workers that were taken over take as much of the host's memory as they can.
// One that has more than a program may is killed, and so is one of two that have more together than
// the VM may, and one that has it in files that nobody maps. The log names the option. Who has less
// stays, and so does the VM.
func TestWorkersMemory(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *exec.Cmd){
		"root":             func(*testing.T, *exec.Cmd) {},
		"an ordinary user": byNobody,
	} {
		t.Run(name, func(t *testing.T) { testWorkersMemory(t, prepare) })
	}
}

func testWorkersMemory(t *testing.T, prepare func(*testing.T, *exec.Cmd)) {
	program, err := buildTakenOver()
	if err != nil {
		t.Fatal(err)
	}
	g := newGuestBy(t, func(c *exec.Cmd) {
		c.Path, c.Args[0] = program, program
		c.Args = append(c.Args, "--set", fmt.Sprint("host-memory=", takenover.HostMemory),
			"--set", fmt.Sprint("vm-host-memory=", takenover.HostMemory),
			"--set", fmt.Sprint("soft-memory=", takenover.SoftMemory))
		prepare(t, c)
	})
	if err := g.hello(0); err != nil {
		t.Fatal(err)
	}
	light, heavy := deed("", takenover.LightName), deed("resource", "too much memory")
	hidden := deed("", takenover.HiddenName)
	for _, step := range []struct {
		what    string
		deeds   []int // of the channels
		workers int   // that live on
		option  string
	}{
		{"one too much", []int{heavy}, 0, "(--set host-memory)"},
		{"much", []int{light}, 1, ""},
		{"hidden", []int{hidden}, 0, "(--set soft-memory)"},
		{"too much together", []int{light, light}, 1, "(--set vm-host-memory)"},
	} {
		before := g.logged(t)
		for i := range step.deeds {
			g.renew(1 + i)
		}
		// For a moment the VM might be about to pause: workers would stop.
		time.Sleep(2 * time.Second)
		for i, deed := range step.deeds {
			if err := g.channels[i].beginDeed(deed); err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
		}
		// One that may live is looked at for a while.
		for wait := patience.Of(soon); step.option != "" && len(g.workers()) > step.workers; {
			if wait.Over() {
				t.Fatalf("%s: all workers live", step.what)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if step.option == "" {
			time.Sleep(4 * time.Second)
		}
		if n := len(g.workers()); n != step.workers {
			t.Errorf("%s: %d workers live, want %d", step.what, n, step.workers)
		}
		if said := g.logged(t)[len(before):]; strings.Count(said, step.option+": it is killed") !=
			min(1, len(step.option)) {
			t.Errorf("%s: want one line with %q:\n%s", step.what, step.option, said)
		}
		for i := range step.deeds {
			if err := g.channels[i].drop(); err != nil {
				t.Errorf("%s: %v", step.what, err)
			}
		}
	}
	g.rights(t)
}

// TestMovedOutMemory: device memory that a VM's owner has moved out to its worker isn't too much,
// however little the worker may take by itself.
func TestMovedOutMemory(t *testing.T) {
	control := filepath.Join(t.TempDir(), "control")
	g := newGuestBy(t, func(c *exec.Cmd) {
		// On a busy machine much memory takes a while.
		c.Args = append(c.Args, "--control", control, "--set", "soft-memory=1G",
			"--set", "stop-grace=1m",
			"--set", fmt.Sprint("host-memory=", takenover.HostMemory))
	})
	if err := g.hello(0); err != nil {
		t.Fatal(err)
	}
	c := g.channels[victim]
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.context, err = c.must(gpubackend.OpDevicePrimaryCtxRetain, 0); err != nil {
		t.Fatal(err)
	}
	address, err := c.must(gpubackend.OpMemAlloc, takenover.Heavy)
	if err == nil {
		err = c.send(gpubackend.OpMemsetD8Async, address, 1, takenover.Heavy, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{"suspend", "resume"} {
		out, err := exec.Command(g.process.Path, change, control).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", change, err, out)
		}
		before, _ := g.resident()
		time.Sleep(4 * time.Second) // it is looked at
		if n := len(g.workers()); n != 1 || change == "suspend" && before < takenover.Heavy {
			t.Fatalf("%s: %d workers live, with %d bytes\n%s", change, n, before, g.logged(t))
		}
	}
	if err := c.recover(1); err != nil {
		t.Error(err)
	}
}

// deed is the number of a deed. Without a kind any will do.
func deed(kind, name string) int {
	return slices.IndexFunc(takenover.Deeds(), func(d takenover.Deed) bool {
		return d.Name == name && (kind == "" || d.Kind == kind)
	})
}

// beginDeed opens the channel with a worker that does a deed, and doesn't wait for it.
func (c *channel) beginDeed(deed int) error {
	status, err := c.g.control(wire.ControlRequest{Type: wire.ControlOpen, Channel: uint32(c.index),
		Pid: 1, Comm: takenover.Name(deed)})
	if err == nil && status != wire.StatusOk {
		err = fmt.Errorf("OPEN: status %d", status)
	}
	return err
}

// logged is the device's log so far.
func (g *rig) logged(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(g.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
