// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// faultVictims are the processes that are killed and stopped.
var faultVictims = []struct {
	role  string
	often int  // the weight: how often, compared with the others
	fails bool // the program may fail if this process is killed
}{
	{"worker", 4, true}, {"mover", 4, true}, {"device", 4, false}, {"arbiter", 2, false},
	{"program", 4, false}, {"front end", 1, false},
}

// All that a program or VM had must be freed within soon in 95 of 100 rounds, and within late in
// each. The time that processes wait for a processor doesn't count.
const (
	soon = time.Second
	late = 20 * time.Second
)

// TestFaultsAtAnyMoment kills and stops each process of a VM, its front end, the arbiter and the
// program at random moments. What they had is freed within a second, other processes go on, and the
// next program is right. PARACUDA_FAULTS is the number of rounds (make stress-faults).
func TestFaultsAtAnyMoment(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		rounds := times(40, 200)
		if vm.isQEMU() {
			rounds = times(20, 200)
		}
		if text := os.Getenv("PARACUDA_FAULTS"); text != "" {
			var err error
			if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
				t.Fatalf("PARACUDA_FAULTS is %q, want a number of rounds", text)
			}
		}
		r := newFaultRig(t, vm)
		var all []string
		for _, v := range faultVictims {
			for range v.often {
				all = append(all, "KILL "+v.role, "STOP "+v.role)
			}
		}
		var took []time.Duration
		r.round("before", "device", "KILL") // the keeper then has the program open that it executes
		r.round("before", "mover", "STOP")  // starts the mover, which then stays
		before := r.files()
		for i := range rounds {
			if i%len(all) == 0 {
				rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			}
			how, role, _ := strings.Cut(all[i%len(all)], " ")
			name := fmt.Sprintf("round %d, %s %s", i, how, role)
			d := r.round(name, role, how)
			if took = append(took, d); d > soon {
				t.Logf("%s: freed after %v", name, d)
			}
		}
		r.check(before, took)
	})
}

// check: the rounds have left no descriptors open, and all was freed in time.
func (r *faultRig) check(before map[string]int, took []time.Duration) {
	r.Helper()
	var now map[string]int
	more := func() bool {
		now = r.files()
		for role, n := range now {
			if n > before[role] {
				return true
			}
		}
		return false
	}
	for w := patienceOf(late); more(); time.Sleep(50 * time.Millisecond) {
		if w.over() {
			r.Fatalf("descriptors: %v, want at most what was open before, %v", now, before)
		}
	}
	slices.Sort(took)
	slow := 0
	for _, d := range took {
		if d > soon {
			slow++
		}
	}
	r.Logf("%d rounds: freed after %v (median), %v at most", len(took), took[len(took)/2],
		took[len(took)-1])
	if slow*20 > len(took) || took[len(took)-1] > late {
		r.Errorf("%d of %d rounds took more than %v, the slowest %v: want 1 in 20, and %v at most",
			slow, len(took), soon, took[len(took)-1], late)
	}
}

// round starts a program, kills or stops a process, and ends the program. What it had must be
// freed, and the next program must be right.
func (r *faultRig) round(name, role, how string) time.Duration {
	r.Helper()
	r.Log(name)
	r.say("begin", "began")
	pause(400 * time.Millisecond)
	if role == "front end" && how == "KILL" {
		return r.loseFrontEnd(name)
	}
	r.fault(name, role, how)
	pause(60 * time.Millisecond)
	begun := patienceOf(late)
	exit, said, _ := strings.Cut(r.say("end", "ended"), " ")
	failed := how == "KILL" && mayFail(role) && exit == "3"
	if exit != "137" && !failed {
		r.Errorf("%s: the program ended with %s, want 137 (killed): %s", name, exit, said)
	}
	r.freed()
	took := begun.Spent()
	r.forgotten()
	r.next()
	if r.Failed() {
		r.Fatalf("%s has failed", name)
	}
	return took
}

// mayFail says whether a program may fail if a process of this role is killed.
func mayFail(role string) bool {
	for _, v := range faultVictims {
		if v.role == role {
			return v.fails
		}
	}
	return false
}

// pause waits for a random time: the test's events come at random moments.
func pause(most time.Duration) { time.Sleep(rand.N(most)) }

// fault kills a process, or stops it for a random time.
func (r *faultRig) fault(name, role, how string) {
	r.Helper()
	signal, again := r.signalOf(name, role)
	if how == "KILL" {
		signal(syscall.SIGKILL)
		again()
		return
	}
	signal(syscall.SIGSTOP)
	pause(200 * time.Millisecond)
	signal(syscall.SIGCONT)
}

// signalOf returns how to signal a process of a role, and what to do after it was killed.
func (r *faultRig) signalOf(name, role string) (signal func(syscall.Signal), again func()) {
	r.Helper()
	none := func() {}
	switch role {
	case "program":
		return func(s syscall.Signal) {
			word := map[syscall.Signal]string{syscall.SIGKILL: "KILL", syscall.SIGSTOP: "STOP",
				syscall.SIGCONT: "CONT"}[s]
			r.say(word, "sent")
		}, none
	case "arbiter":
		arbiter := r.arbiter
		return arbiter.signal, func() { <-arbiter.done; r.startArbiter() }
	}
	var pid int
	for w := patienceOf(late); pid == 0; time.Sleep(time.Millisecond) {
		if pids := r.pids(role); len(pids) > 0 {
			pid = pids[0]
		} else if w.over() {
			r.Fatalf("%s: there is no %s; the program: %s", name, role, r.say("end", "ended"))
		}
	}
	if role == "device" {
		return func(s syscall.Signal) {
			if s == syscall.SIGKILL { // by the keeper: it counts no crash, and crashes are bounded
				pid, s = r.keeper, syscall.SIGUSR2
			}
			_ = syscall.Kill(pid, s)
		}, none
	}
	return func(s syscall.Signal) { _ = syscall.Kill(pid, s) }, none
}

// loseFrontEnd kills the front end. The VM's processes end, and a program in another VM is right.
func (r *faultRig) loseFrontEnd(name string) time.Duration {
	r.Helper()
	all := []int{r.keeper, r.starter}
	for _, role := range []string{"front end", "device", "worker", "mover"} {
		all = append(all, r.pids(role)...)
	}
	limit := patienceOf(time.Minute)
	r.fault(name, "front end", "KILL")
	here := func(pid int) bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && !strings.Contains(string(text), ") Z ")
	}
	for slices.ContainsFunc(all, here) {
		if limit.over() {
			r.Fatalf("%s: some of the processes %v have not ended", name, all)
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := limit.Spent()
	<-r.ended
	if r.run.ProcessState.Success() {
		r.Errorf("%s: paracuda run ended with 0, want a failure", name)
	}
	r.boot()
	return took
}
