// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
)

// In these tests VMs share a GPU under one arbiter. They are started as an operator would start
// them, and measured by paracuda top.

// background is a process that ends with its test.
type background struct {
	*testing.T
	cmd  *exec.Cmd
	mu   sync.Mutex
	text bytes.Buffer // standard output and standard error
	done chan struct{}
}

// Write implements io.Writer.
func (b *background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *background) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// inBackground starts a command. The end of the test ends it.
func inBackground(t *testing.T, args ...string) *background {
	t.Helper()
	b := &background{T: t, cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{})}
	b.cmd.Dir, b.cmd.Stdout, b.cmd.Stderr = root, b, b
	b.cmd.WaitDelay = 10 * time.Second
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(b.done)
		_ = b.cmd.Wait()
	}()
	t.Cleanup(func() {
		b.signal(syscall.SIGCONT)
		b.signal(syscall.SIGTERM)
		if !awaits(b.done, time.Minute) {
			_ = b.cmd.Process.Kill()
			t.Errorf("%s doesn't end after SIGTERM", strings.Join(args, " "))
		}
	})
	return b
}

func (b *background) signal(s syscall.Signal) { _ = b.cmd.Process.Signal(s) }

// sharedHost is an arbiter with its VMs.
type sharedHost struct {
	*testing.T
	socket  string
	options []string // for the arbiter
	*background
}

func newSharedHost(t *testing.T, options ...string) *sharedHost {
	t.Helper()
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "uml") {
		skip(t, "PARACUDA_VM leaves User Mode Linux out")
	}
	if setting("PARACUDA_GPU", "soft") != "soft" {
		skip(t, "tests/bench/share measures this on a real GPU")
	}
	h := &sharedHost{T: t, socket: filepath.Join(t.TempDir(), "arbiter"), options: options}
	h.start()
	return h
}

// start starts an arbiter and waits until it answers.
func (h *sharedHost) start() {
	h.T.Helper()
	h.background = inBackground(h.T,
		append([]string{paracuda, "arbiter", "--socket", h.socket}, h.options...)...)
	until(h.T, 20*time.Second, "the arbiter answers", func() bool { return h.vms() != nil })
}

// vmFigures is what paracuda top says about a VM.
type vmFigures struct {
	Name    string  `json:"name"`
	Held    float64 `json:"held_ns"`
	Turns   uint64  `json:"turns"`
	Swaps   uint64  `json:"swaps"`
	Figures struct {
		Memory    map[string]uint64 `json:"memory"`
		Counters  map[string]uint64 `json:"counters"`
		Processes []struct {
			PID      int               `json:"pid"`
			Name     string            `json:"name"`
			Memory   map[string]uint64 `json:"memory"`
			Counters map[string]uint64 `json:"counters"`
		} `json:"processes"`
	} `json:"figures"`
}

// vms are the arbiter's VMs, by name. nil: the arbiter doesn't answer.
func (h *sharedHost) vms() map[string]vmFigures {
	list, err := client.List(h.socket)
	if err != nil {
		return nil
	}
	text, _ := json.Marshal(list)
	var all []vmFigures
	if json.Unmarshal(text, &all) != nil {
		return nil
	}
	named := map[string]vmFigures{}
	for _, v := range all {
		named[v.Name] = v
	}
	return named
}

// vm starts a VM that runs tests/scripts/tenant.py.
func (h *sharedHost) vm(name string, policy []string, tenant ...string) *background {
	h.T.Helper()
	return h.boot(name, policy, append(tenantProgram(h.T), tenant...)...)
}

// vmOfTwo starts a VM that runs tenant.py twice, with these arguments.
func (h *sharedHost) vmOfTwo(name, one, other string) *background {
	h.T.Helper()
	both := `"$@" ` + one + ` & exec "$@" ` + other
	run := []string{"/bin/sh", "-c", both, "sh"}
	return h.boot(name, nil, append(run, tenantProgram(h.T)...)...)
}

// tenantProgram is the command that runs tenant.py, without its arguments.
func tenantProgram(t *testing.T) []string {
	return []string{python(t), filepath.Join(root, "tests/scripts/tenant.py")}
}

// boot starts a VM that runs a command.
func (h *sharedHost) boot(name string, policy []string, run ...string) *background {
	h.T.Helper()
	args := []string{paracuda, "run", "--vm", "uml", "--gpu", "soft", "--mem", "512M",
		"--arbiter", h.socket, "--name", name}
	for _, setting := range policy {
		args = append(args, "--set", setting)
	}
	return inBackground(h.T, append(append(args, "--"), run...)...)
}

// works waits until a VM has launched kernels.
func (h *sharedHost) works(b *background, name string) {
	h.T.Helper()
	until(h.T, time.Minute, name+" works", func() bool {
		return strings.Contains(b.said(), "ready") && h.vms()[name].Figures.Counters["launches"] > 0
	})
}

// share is the first VM's part of the time that both hold the GPU, in a window of 3 seconds.
func (h *sharedHost) share(a, b string) float64 {
	before := h.vms()
	time.Sleep(3 * time.Second)
	after := h.vms()
	of := func(name string) float64 { return after[name].Held - before[name].Held }
	return of(a) / (of(a) + of(b))
}

// inSomeWindow measures up to 8 times, until the result is right: on a busy host a VM may get no
// processor for a whole window.
func inSomeWindow(t *testing.T, measure func() error) {
	t.Helper()
	var err error
	for range 8 {
		if err = measure(); err == nil {
			return
		}
		t.Log(err)
	}
	t.Error(err)
}

// TestVMsShare: two VMs share a GPU by weight, keep to a time limit that is set while they run, and
// are shown in paracuda top.
func TestVMsShare(t *testing.T) {
	boots(t)
	h := newSharedHost(t)
	a := h.vm("a", []string{"weight=900"}, "2000", "40")
	b := h.vmOfTwo("b", "200 1 0 2", "2000 40") // one rests
	h.works(a, "a")
	h.works(b, "b")
	inSomeWindow(t, func() error {
		// The weights give 0.9. Without them it would be 0.5. A busy host may waste turns.
		if s := h.share("a", "b"); s < 0.7 || s > 0.98 {
			return fmt.Errorf("a share of %.3f, want 0.7 to 0.98", s)
		}
		return nil
	})
	h.look(map[string]int{"a": 1, "b": 2})
	h.lookAtTwo("b")
	if r := command(t, time.Minute, root, paracuda, "set", "--arbiter", h.socket, "--vm", "a",
		"time-limit=20"); r.exit != 0 {
		t.Fatalf("set: %s", r.stderr)
	}
	inSomeWindow(t, func() error {
		before := h.vms()["a"].Held
		begin := time.Now()
		time.Sleep(3 * time.Second)
		part := (h.vms()["a"].Held - before) / float64(time.Since(begin))
		if part < 0.05 || part > 0.23 {
			return fmt.Errorf("%.3f of the GPU with a limit of 0.20, want 0.05 to 0.23", part)
		}
		return nil
	})
	a.signal(syscall.SIGTERM)
	until(t, time.Minute, "a is gone", func() bool { _, there := h.vms()["a"]; return !there })
}

// aContext is the memory of a context on the software GPU.
const aContext = 8 << 20

// look checks what paracuda top shows of VMs that compute, each with a number of programs.
func (h *sharedHost) look(programs map[string]int) {
	h.T.Helper()
	until(h.T, time.Minute, "all programs have begun", func() bool {
		for name, v := range h.vms() {
			if v.Figures.Memory["contexts"] != uint64(programs[name])*aContext {
				return false
			}
		}
		return true
	})
	for name, v := range h.vms() {
		if len(v.Figures.Processes) != programs[name] {
			h.T.Errorf("VM %s has %+v, want %d processes", name, v.Figures, programs[name])
		}
		for _, p := range v.Figures.Processes {
			if p.Memory["contexts"] != aContext || !strings.HasPrefix(p.Name, "python") ||
				p.PID <= 0 {
				h.T.Errorf("VM %s has %+v, want python with one context each", name, v.Figures)
			}
		}
	}
	for _, once := range []string{"--once", "--every=1s"} { // the same where there is no terminal
		r := command(h.T, time.Minute, root, paracuda, "top", "--arbiter", h.socket, once)
		for _, text := range []string{"2 VMs", "a ", "b ", "8M / 2G", "python"} {
			if r.exit != 0 || !strings.Contains(r.stdout, text) {
				h.T.Errorf("top %s: exit code %d, no %q:%s%s", once, r.exit, text,
					tail(r.stdout), tail(r.stderr))
			}
		}
	}
}

// lookAtTwo checks the figures of a VM with two programs. The one that is busy waits for turns all
// the time, the one that rests hardly ever. Each has its own figures, and the VM has those of both.
func (h *sharedHost) lookAtTwo(name string) {
	h.T.Helper()
	const wait, used = "turn_wait_ns", "turns_used"
	until(h.T, 2*time.Minute, "one program waits longer than the other", func() bool {
		v := h.vms()[name]
		all, p := v.Figures.Counters, v.Figures.Processes
		if len(p) != 2 {
			return false
		}
		busy, rests := p[0].Counters, p[1].Counters
		if busy["launches"] < rests["launches"] {
			busy, rests = rests, busy
		}
		if busy[used] > v.Turns || all[wait] < busy[wait] || all[used] < busy[used] {
			h.T.Fatalf("VM %s has %+v, want no more turns and waiting in a program", name, v)
		}
		return busy[wait] > uint64(time.Second) && busy[wait] > 3*rests[wait] &&
			rests[used] > 0 && busy[used] > rests[used]
	})
}

// TestArbiterEndsInTheMiddle stops, continues and kills the arbiter, and starts it again, while VMs
// compute. No program notices.
func TestArbiterEndsInTheMiddle(t *testing.T) {
	boots(t)
	h := newSharedHost(t)
	const kernels = "2000"
	vms := map[string]*background{
		"a": h.vm("a", []string{"weight=300"}, "1000", "10", kernels),
		"b": h.vm("b", nil, "1000", "10", kernels),
	}
	for name, b := range vms {
		until(t, time.Minute, name+" works", func() bool {
			return strings.Contains(b.said(), "ready")
		})
	}
	h.signal(syscall.SIGSTOP)
	time.Sleep(time.Second)
	h.signal(syscall.SIGCONT)
	time.Sleep(300 * time.Millisecond)
	h.signal(syscall.SIGKILL)
	<-h.done
	time.Sleep(300 * time.Millisecond)
	h.start()
	for name, b := range vms {
		if !awaits(b.done, time.Minute) {
			t.Fatalf("%s doesn't end: %s", name, tail(b.said()))
		}
		want, state := "ready\n"+kernels+"\n", b.cmd.ProcessState
		if b.said() != want || state.ExitCode() != 0 {
			t.Errorf("%s: %v, %q, want %q", name, state, b.said(), want)
		}
	}
}
