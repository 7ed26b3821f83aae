// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/internal/patience"
)

// startDevice starts a `paracuda device` without a VM, and waits until it answers. One that gave up
// on an arbiter that was slow is started again.
func startDevice(t *testing.T, dir string, options ...string) (control string, log *lines) {
	t.Helper()
	control, log = filepath.Join(dir, "control"), &lines{}
	arguments := append([]string{"device", "--gpu", "soft", "--sandbox", "off",
		"--socket-path", filepath.Join(dir, "vm-1.sock"), "--control", control}, options...)
	var c *exec.Cmd
	var ended chan struct{}
	start := func() {
		c, ended = exec.Command(os.Args[0], arguments...), make(chan struct{})
		c.Stderr, c.SysProcAttr = log, endsWithTest()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		go func(c *exec.Cmd, ended chan struct{}) { defer close(ended); _ = c.Wait() }(c, ended)
	}
	start()
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	within(t, "the device answers", func() bool {
		select {
		case <-ended:
			if !late(log.String()) {
				t.Fatalf("the device process has ended: %s", log)
			}
			start()
		default:
		}
		return dispatch([]string{"set", control, "batch-commands=512"}) == nil
	})
	return control, log
}

// late says whether what a command said is that it didn't wait any longer for an arbiter or a
// device process, as happens on a busy machine.
func late(said string) bool {
	for _, text := range []string{
		"is it stopped?", "i/o timeout", "resource temporarily unavailable",
		`no VM "vm-1" has joined`, // the arbiter has dropped it, and it joins again
	} {
		if strings.Contains(said, text) {
			return true
		}
	}
	return false
}

// refused runs a command until it has its answer, which must be a refusal that ends in a line that
// says what is wanted.
func refused(t *testing.T, line, want string) {
	t.Helper()
	for wait := patience.Of(time.Minute); ; {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		c := exec.CommandContext(ctx, os.Args[0], strings.Fields(line)...)
		out, err := c.CombinedOutput()
		stop()
		text := strings.TrimSuffix(string(out), "\n")
		last := text[strings.LastIndexByte(text, '\n')+1:]
		switch {
		case err != nil && strings.Contains(last, want):
			return
		case err == nil || !late(last) || wait.Over():
			t.Errorf("%s: %v, %q, want %q", line, err, text, want)
			return
		}
	}
}

// policyOf is what an arbiter says of a VM's settings; nil: there is no such VM, or no answer yet.
func policyOf(t *testing.T, path, name string) map[string]string {
	t.Helper()
	vms, err := client.List(path)
	if err != nil && !late(err.Error()) {
		t.Fatal(err)
	}
	for _, v := range vms {
		if v.Name == name {
			return v.Policy
		}
	}
	return nil
}

func TestDeviceTakesPart(t *testing.T) {
	dir := t.TempDir()
	p := startArbiter(t, filepath.Join(dir, "arbiter"))
	control, _ := startDevice(t, dir, "--arbiter", p.path, "--set", "weight=300")
	is := func(key, want string) func() bool {
		return func() bool { return policyOf(t, p.path, "vm-1")[key] == want }
	}
	within(t, "the VM has joined", is("weight", "300"))
	for _, args := range [][]string{
		{"set", control, "class=latency"},
		{"set", "--vm", "vm-1", "--arbiter", p.path, "time-limit=30", "memory=1G"},
	} {
		if err := dispatch(args); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
	within(t, "the class", is("class", "latency"))
	within(t, "the limit", is("time-limit", "30"))
	within(t, "the device keeps the operator's bound", func() bool {
		err := dispatch([]string{"set", control, "memory=2G"})
		return err != nil && strings.Contains(err.Error(), "the arbiter has set it for this VM")
	})
	within(t, "figures", func() bool {
		vms, err := client.List(p.path)
		return err == nil && len(vms) == 1 && vms[0].Figures != nil
	})
	within(t, "the device knows its turns", func() bool {
		a, err := admin.Ask(control, admin.Request{Stats: true})
		return err == nil && a.Turns != nil && a.Turns.Name == "vm-1"
	})
	p.signal(syscall.SIGKILL)
	<-p.done
	if a, err := admin.Ask(control, admin.Request{Stats: true}); err != nil || a.Stats == nil {
		t.Errorf("without an arbiter: %v", err)
	}
	p = startArbiter(t, p.path)
	within(t, "the VM has joined another arbiter as it was", is("class", "latency"))
}

func TestPolicyMistakes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "arbiter")
	p := startArbiter(t, path)
	control, _ := startDevice(t, dir, "--arbiter", path)
	within(t, "the guarantee", func() bool {
		err := dispatch([]string{"set", control, "memory-guarantee=1536M"})
		if err != nil && !late(err.Error()) {
			t.Fatal(err)
		}
		return err == nil
	})
	serve := "device --gpu soft --socket-path " + dir
	at := "set --arbiter " + path + " --vm "
	for line, want := range map[string]string{
		"set " + control + " weight=0":     "want a number above 0",
		"set " + control + " weight=10001": "must be from 1 to 10000",
		"set " + control + " turn=1h":      "must be from 500µs to 1s",
		at + "vm-1 weight=10001":           "must be from 1 to 10000",
		at + "vm-1 time-limit=0":           "want a number above 0",
		at + "vm-1 memory=8GB":             "want a number, perhaps with K",
		at + "vm-1 memory-guarantee=3G":    "add up to 3G, and it has 2G: lower",
		serve + "/b --arbiter " + path + " --set memory-guarantee=1G": "add up to 2560M, and it " +
			"has 2G: lower some",
		at + "vm-1 weight=5 colour=red": "unknown key: want weight",
		at + "vm-1 weight":              "want KEY=VALUE",
		at + "vm-1":                     "want --vm NAME and KEY=VALUE",
		at + "nobody weight=5":          `no VM "nobody" has joined: paracuda`,
		at + "a/b weight=5":             "want 1 to 64 of a-z",
		"set --arbiter " + dir + "/none --vm vm-1 weight=5": "start one with paracuda arbiter",
		"set --arbiter " + control + " --vm vm-1 weight=5":  "is another program's",
		"top --once --arbiter " + dir + "/none":             "start one with paracuda arbiter",
		"top --every 1ms":                                   "want 100ms or more",
		serve + "/b --arbiter none --set weight=5":          "need one",
		serve + "/b --arbiter " + dir + "/none":             "start one with",
		serve + "/vm-1.s --arbiter " + path:                 "give each VM",
		serve + "/b --arbiter " + path + " --name a/b":      "VM name",
	} {
		refused(t, line, want)
	}
	var weight string
	within(t, "the VM has joined", func() bool {
		weight = policyOf(t, path, "vm-1")["weight"]
		return weight != ""
	})
	if weight != "100" {
		t.Errorf("what was refused made the weight %s", weight)
	}
	p.signal(syscall.SIGTERM)
}

// TestStoppedArbiter has one that is stopped by a signal: gates open soon, and close again.
func TestStoppedArbiter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arbiter")
	p := startArbiter(t, path)
	a, b := newMember(t, path, "a"), newMember(t, path, "b")
	shared := func() bool { return !a.page.State().Free && !b.page.State().Free }
	within(t, "both share", shared)
	unshared := func() bool { return a.page.State().Free && b.page.State().Free }
	p.signal(syscall.SIGSTOP)
	begin := time.Now()
	within(t, "both gates are open", unshared)
	t.Logf("the gates opened after %v", time.Since(begin))
	if err := client.SetPolicy(path, "a", map[string]string{"weight": "5"}); err == nil ||
		!strings.Contains(err.Error(), "is it stopped?") {
		t.Errorf("a command: %v", err)
	}
	p.signal(syscall.SIGCONT)
	within(t, "both share again", shared)
	p.signal(syscall.SIGKILL)
	within(t, "both gates are open", unshared)
	startArbiter(t, path)
	within(t, "both share with another one", shared)
}

// TestFloodedArbiter has many that ask, connect and vanish, and talk nonsense, without end.
func TestFloodedArbiter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arbiter")
	p := startArbiter(t, path)
	a, b := newMember(t, path, "a"), newMember(t, path, "b")
	stop := make(chan struct{})
	flood := func(f func(c *link.Conn)) {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if c, err := link.Dial(path, time.Second); err == nil {
				f(c)
				c.Close()
			}
		}
	}
	for range 2 {
		go flood(func(*link.Conn) {})
		go flood(func(c *link.Conn) { _ = c.Send("nonsense") })
		go flood(func(c *link.Conn) {
			_ = c.Send(&link.Request{Version: link.Version, Kind: link.Join, Name: "ghost"})
		})
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = a.Set(map[string]string{"weight": "7"})
					a.Tell(&link.Figures{Counters: map[string]uint64{"x": 1}}, nil)
				}
			}
		}()
	}
	w := b.page.Worker(0)
	for range 20 {
		w.Wait(true)
		within(t, "the other has its turn", func() bool { return b.page.State().Open })
		w.Wait(false)
		a.page.Worker(0).Wait(true)
		within(t, "the first has its turn", func() bool { return a.page.State().Open })
		a.page.Worker(0).Wait(false)
	}
	close(stop)
	within(t, "the arbiter answers", func() bool { _, err := client.List(path); return err == nil })
	p.signal(syscall.SIGTERM)
	if err := <-p.done; err != nil {
		t.Errorf("it ended with %v, %s", err, p.log)
	}
}

// TestNameOfTheVM: it is what is given, or that of the configuration or the socket.
func TestNameOfTheVM(t *testing.T) {
	for _, tt := range []struct {
		o    deviceOptions
		want string
	}{
		{deviceOptions{name: "a", config: "/etc/b.conf", socket: "/run/c.sock"}, "a"},
		{deviceOptions{config: "/etc/b.conf", socket: "/run/c.sock"}, "b"},
		{deviceOptions{socket: "/run/c d.sock"}, "c-d"},
	} {
		if got, err := tt.o.vmName(); err != nil || got != tt.want {
			t.Errorf("%+v: %s, %v, want %s", tt.o, got, err, tt.want)
		}
	}
}

// TestNamesOfSharedGPUs: each of the host's GPUs is shared by itself, by a name that doesn't depend
// on how the VM's operator named it.
func TestNamesOfSharedGPUs(t *testing.T) {
	o := deviceOptions{gpu: "cuda:1,0", chosen: chosen{gpus: []hostgpus.GPU{
		{Name: "A", UUID: "GPU-1", Memory: 2 << 30}, {Name: "A", UUID: "GPU-0", Memory: 1 << 30},
	}}}
	want := []link.GPU{{Name: "GPU-1", Memory: 2 << 30}, {Name: "GPU-0", Memory: 1 << 30}}
	if got := o.shared(gpuCUDA); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	o = deviceOptions{settings: settings.Default()}
	o.settings.Policy.SoftMemory = 3 << 30
	want = []link.GPU{{Name: "soft", Memory: 3 << 30}}
	if got := o.shared(gpuSoft); !slices.Equal(got, want) {
		t.Errorf("software: %v", got)
	}
	o.settings.Policy.SoftGPUs = 2
	want = append(want, link.GPU{Name: "soft-1", Memory: 3 << 30})
	if got := o.shared(gpuSoft); !slices.Equal(got, want) {
		t.Errorf("two of software: %v", got)
	}
}
