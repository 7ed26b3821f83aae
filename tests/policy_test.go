// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// policyChanges are policies, their former values, and the counter that grows while the policy
// holds and not otherwise. Only the guest's library heeds inline-limit. The driver tells it: a
// request for the settings always waits in the driver, and is answered when they change.
var policyChanges = []struct{ set, unset, counter string }{
	{"batch-commands=1", "batch-commands=512", "batches_full"},
	{"batch-bytes=64", "batch-bytes=64K", "batches_full_bytes"},
	{"batch-delay=5ms", "batch-delay=0", "batches_delayed"},
	{"inline-limit=0", "inline-limit=64K", "bytes_mapped"},
}

// TestPolicyChangesUnderLoad changes the policies of a VM in which a program works: they hold at
// once.
func TestPolicyChangesUnderLoad(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		changePolicies(t, startPolicyRig(t, vm, paracudaRun...))
	})
}

// TestPolicyChangesBehindGenericDevice is the same with the generic device, which has a virtio ID
// of its own, and a configuration space that doesn't have the policies.
func TestPolicyChangesBehindGenericDevice(t *testing.T) {
	needsQEMU(t)
	vm := frontEnds[slices.IndexFunc(frontEnds, func(f frontEnd) bool { return f.name == "qemu" })]
	changePolicies(t, startPolicyRig(t, vm, "env", "PARACUDA_QEMU="+qemuProgram(t, "11"), paracuda,
		"run", "--carrier", "generic"))
}

func changePolicies(t *testing.T, p *policyRig) {
	t.Helper()
	p.commands(t, 1) // the program works
	for _, change := range policyChanges {
		if p.grows(t, change.counter) {
			t.Errorf("%s grows before %s", change.counter, change.set)
		}
		p.set(t, change.set)
		p.eventually(t, change.counter, true)
		p.set(t, change.unset)
		p.eventually(t, change.counter, false)
	}
	for _, fixed := range []string{"channels=3", "arena=16M", "batch-bytes=8",
		"batch-delay=1h"} {
		if r := command(t, time.Minute, root, paracuda, "set", p.socket, fixed); r.exit == 0 ||
			!strings.Contains(r.stderr, fixed) {
			t.Errorf("set %s: exit code %d, want a refusal:%s", fixed, r.exit, tail(r.stderr))
		}
	}
	if r := command(t, time.Minute, root, paracuda, "stats",
		p.socket); !strings.Contains(r.stdout, "launches (") ||
		!strings.Contains(r.stdout, "commands a batch") {
		t.Errorf("stats: want \"launches (\" and \"commands a batch\":%s", tail(r.stdout+r.stderr))
	}
}

// policyRig is a VM in which a program works without end.
type policyRig struct {
	pid    int // of paracuda run
	socket string
	limit  time.Duration
	ended  chan struct{}
}

// paracudaRun is the command line that starts a VM without more options.
var paracudaRun = []string{paracuda, "run"}

// startPolicyRig starts such a VM by a command line: paracuda run, with or without options.
func startPolicyRig(t *testing.T, vm frontEnd, run ...string) *policyRig {
	t.Helper()
	return startPolicyRigBy(t, vm, run, filepath.Join(programs, "launches"), "0")
}

// startPolicyRigOf starts a VM in which another program works.
func startPolicyRigOf(t *testing.T, vm frontEnd, program ...string) *policyRig {
	t.Helper()
	return startPolicyRigBy(t, vm, paracudaRun, program...)
}

func startPolicyRigBy(t *testing.T, vm frontEnd, run []string, program ...string) *policyRig {
	t.Helper()
	p := &policyRig{socket: filepath.Join(t.TempDir(), "control"), limit: vm.boot + vm.limit,
		ended: make(chan struct{})}
	cmd := exec.Command(run[0], slices.Concat(run[1:], []string{"--vm", vm.name, "--gpu", "soft",
		"--control", p.socket, "--"}, program)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	var log strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &log, &log, 10*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if !awaits(p.ended, time.Minute) {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-p.ended
			t.Error("the VM did not end")
		}
		if t.Failed() {
			t.Logf("the VM's output:%s", tail(log.String()))
		}
	})
	return p
}

func (p *policyRig) set(t *testing.T, setting string) {
	t.Helper()
	if r := command(t, time.Minute, root, paracuda, "set", p.socket, setting); r.exit != 0 {
		t.Fatalf("set %s: %s", setting, r.stderr)
	}
}

// counters returns the program's counters. nil: it isn't there yet.
func (p *policyRig) counters(t *testing.T) map[string]uint64 {
	t.Helper()
	select {
	case <-p.ended:
		t.Fatal("the VM has ended")
	default:
	}
	a := statistics(p.socket)
	if a == nil || len(a.Programs) != 1 {
		return nil
	}
	return a.Programs[0].Stats
}

// commands waits until the program has had n commands executed, and returns its counters then.
func (p *policyRig) commands(t *testing.T, n uint64) map[string]uint64 {
	t.Helper()
	const pause = 20 * time.Millisecond
	for w := patienceOf(p.limit); !w.over(); time.Sleep(pause) {
		if c := p.counters(t); c["commands"] >= n {
			return c
		}
	}
	t.Fatalf("the program didn't get to %d commands", n)
	return nil
}

// grows says whether a counter grows during the program's next 200 commands.
func (p *policyRig) grows(t *testing.T, counter string) bool {
	t.Helper()
	before := p.commands(t, 1)
	return p.commands(t, before["commands"]+200)[counter] != before[counter]
}

// eventually waits until a counter grows, or until it doesn't any more.
func (p *policyRig) eventually(t *testing.T, counter string, grows bool) {
	t.Helper()
	for w := patienceOf(p.limit); !w.over(); {
		if p.grows(t, counter) == grows {
			return
		}
	}
	t.Fatalf("%s grows: %t, want %t", counter, !grows, grows)
}

// TestProgramsUnderPolicies runs programs that make many delayed calls, under policies that batch
// nothing, and that let batches grow. Their output must be the same. By day the program delayed
// doesn't run in User Mode Linux, where it takes longer than all others together.
func TestProgramsUnderPolicies(t *testing.T) {
	t.Parallel()
	wanted := []string{"delayed", "defaultstream", "defaultstream-ptds", "lateerror",
		"blockedthread", "hostvisible", "order", "streams", "threads4"}
	all := slices.DeleteFunc(readPrograms(t),
		func(p program) bool { return !slices.Contains(wanted, p.id()) })
	if len(all) != len(wanted) {
		t.Fatalf("programs.txt has %d of %d programs", len(all), len(wanted))
	}
	policies := []struct {
		name string
		set  []string
	}{
		{"undelayed", []string{"batch-commands=1", "spin-guest=0"}},
		{"growing", []string{"batch-delay=2ms", "batch-bytes=256", "spin-host=0", "spin-guest=0"}},
	}
	inEach(t, func(t *testing.T, vm frontEnd) {
		all := slices.Clone(all)
		if !atNight && !vm.isQEMU() {
			all = slices.DeleteFunc(all, func(p program) bool { return p.file == "delayed" })
			fmt.Printf("%s: without delayed; make nightly runs it in each front end\n", t.Name())
		}
		for _, policy := range policies {
			t.Run(policy.name, func(t *testing.T) {
				var options []string
				for _, s := range policy.set {
					options = append(options, "--set", s)
				}
				var jobs []job
				for _, p := range all {
					jobs = append(jobs,
						job{p.id(), vm.limit,
							append([]string{filepath.Join(programs, p.file)}, p.args...)})
				}
				got := vm.batch(t, jobs, options...)
				for _, p := range all {
					t.Run(p.id(), func(t *testing.T) { p.check(t, got, p.id()) })
				}
			})
		}
	})
}
