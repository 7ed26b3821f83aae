// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// mostThreads is the most threads of a process that serves a guest, on a host with few processors:
// the Go runtime's, one for each processor that computes or copies, and some that wait.
const mostThreads = 32

// threads is the number of a process's threads.
func (p process) threads() int {
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid))
	return len(list)
}

// TestThreadsOnManyProcessors: where the Go runtime finds many processors, only the worker, which
// is a software GPU, has threads for all of them.
func TestThreadsOnManyProcessors(t *testing.T) {
	const processors = 200
	g := startedBy(t, func(device *exec.Cmd) {
		device.Env = append(os.Environ(), fmt.Sprint("GOMAXPROCS=", processors))
	})
	if err := g.channels[victim].compute(1); err != nil {
		t.Fatal(err)
	}
	for _, p := range g.processes(t) {
		n := p.threads()
		t.Logf("the %s has %d threads", p.role, n)
		switch {
		case p.role == "worker" && n <= mostThreads:
			t.Errorf("the worker has %d threads: the test proves nothing", n)
		case p.role != "worker" && n > mostThreads:
			t.Errorf("the %s has %d threads, want at most %d", p.role, n, mostThreads)
		}
	}
}

// TestThreadsAreBounded: however many objects a program makes, the number of threads of the host's
// processes is bounded.
func TestThreadsAreBounded(t *testing.T) {
	g := started(t)
	c := g.channels[victim]
	if err := c.compute(1); err != nil {
		t.Fatal(err)
	}
	address, err := c.must(gpubackend.OpMemAlloc, 2<<20)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]int{}
	for name, each := range map[string]struct {
		times int
		make  func() (gpubackend.Result, error)
	}{
		"streams with work": {2000, func() (gpubackend.Result, error) {
			r, out, err := c.call(gpubackend.OpStreamCreateWithPriority, 1, 0)
			if err == nil && r == gpubackend.Success {
				err = c.send(gpubackend.OpMemsetD8Async, address, 1, 1<<20, out[0])
			}
			return r, err
		}},
		"events": {2000, func() (gpubackend.Result, error) {
			r, _, err := c.call(gpubackend.OpEventCreate, 2)
			return r, err
		}},
		"events that are offered": {200, func() (gpubackend.Result, error) {
			r, out, err := c.call(gpubackend.OpEventCreate, 6)
			if err == nil && r == gpubackend.Success {
				r, _, err = c.call(gpubackend.OpIpcGetEventHandle, out[0])
			}
			return r, err
		}},
		"memory that is offered": {40, func() (gpubackend.Result, error) {
			r, out, err := c.call(gpubackend.OpMemAlloc, 1<<20)
			if err == nil && r == gpubackend.Success {
				r, _, err = c.call(gpubackend.OpIpcGetMemHandle, out[0])
			}
			return r, err
		}},
		"copies": {300, func() (gpubackend.Result, error) {
			r, _, err := c.call(gpubackend.OpCopyHtoD, address, onMap(20, 0), 4096, 4096, 0, 0)
			return r, err
		}},
	} {
		for range each.times {
			r, err := each.make()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if r == gpubackend.Success {
				made[name]++
			}
		}
		if made[name] == 0 {
			t.Errorf("%s: none was made", name)
		}
	}
	context := c.context
	for range 64 {
		if _, _, err := c.call(gpubackend.OpCtxCreate, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	c.context = context
	for _, p := range g.processes(t) {
		n := p.threads()
		if t.Logf("the %s has %d threads", p.role, n); n > mostThreads {
			t.Errorf("the %s has %d threads, want at most %d, after %v", p.role, n, mostThreads,
				made)
		}
	}
}
