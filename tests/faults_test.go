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

// faultVictims are what is killed and stopped, and how often beside the others; what a program's
// end may be when it was killed, beside that it is ended at the end of its round.
var faultVictims = []struct {
	role  string
	often int
	fails bool // the program may fail when it is killed
}{
	{"worker", 4, true}, {"mover", 4, true}, {"device", 4, false}, {"arbiter", 2, false},
	{"program", 4, false}, {"front end", 1, false},
}

// soon is in which time everything of a program, or of a VM, is to be freed; late is what no round
// may take. What something waits for a processor doesn't count.
const (
	soon = time.Second
	late = 20 * time.Second
)

// TestFaultsAtAnyMoment kills and stops each process of a VM, its front end, the arbiter and the
// program at random moments: what they had is freed within a second, other processes go on, and the
// next program is right. PARACUDA_FAULTS is how many rounds there are (make stress-faults).
func TestFaultsAtAnyMoment(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		rounds := times(40, 200)
		if text := os.Getenv("PARACUDA_FAULTS"); text != "" {
			var err error
			if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
				t.Fatal("PARACUDA_FAULTS isn't a number")
			}
		} else if vm.isQEMU() && !atNight {
			skip(t, "by night: a QEMU without KVM takes minutes")
		}
		r := newFaultRig(t, vm)
		var all []string
		for _, v := range faultVictims {
			for range v.often {
				all = append(all, "KILL "+v.role, "STOP "+v.role)
			}
		}
		var took []time.Duration
		r.round("before", "mover", "STOP") // which is there from then on
		before := r.files()
		for i := range rounds {
			if i%len(all) == 0 {
				rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			}
			how, role, _ := strings.Cut(all[i%len(all)], " ")
			took = append(took, r.round(fmt.Sprintf("round %d, %s %s", i, how, role), role, how))
		}
		r.check(before, took)
	})
}

// check looks whether all rounds together have left something, and how long they took to free.
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
			r.Fatalf("descriptors: %v, before %v", now, before)
		}
	}
	slices.Sort(took)
	slow := 0
	for _, d := range took {
		if d > soon {
			slow++
		}
	}
	r.Logf("%d rounds: freed after %v in the middle, %v at most", len(took), took[len(took)/2],
		took[len(took)-1])
	if slow*20 > len(took) || took[len(took)-1] > late {
		r.Errorf("%d of %d rounds took more than %v, one %v", slow, len(took), soon,
			took[len(took)-1])
	}
}

// round has a program begin, does something to a process, and has the program end: what it had is
// freed, and the next one is right.
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
	failed := how == "KILL" && (role == "worker" || role == "mover") && exit == "3"
	if exit != "137" && !failed {
		r.Errorf("%s: the program ended with %s: %s", name, exit, said)
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

// pause waits for some time, most at the most.
func pause(most time.Duration) { time.Sleep(rand.N(most)) }

// fault kills a process, or stops it for some time.
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

// signalOf returns how to signal one of the VM's processes of a role, and what is to be done after
// it was killed.
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
			r.Fatalf("%s: there is none; the program: %s", name, r.say("end", "ended"))
		}
	}
	if role == "device" {
		return func(s syscall.Signal) {
			if s == syscall.SIGKILL { // by the keeper, for which it is no crash: those are bounded
				pid, s = r.keeper, syscall.SIGUSR2
			}
			_ = syscall.Kill(pid, s)
		}, none
	}
	return func(s syscall.Signal) { _ = syscall.Kill(pid, s) }, none
}

// loseFrontEnd kills the front end: the VM's processes end within a second, and another VM is
// right.
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
			r.Fatalf("%s: not all have ended of %v", name, all)
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := limit.Spent()
	<-r.ended
	if r.run.ProcessState.Success() {
		r.Errorf("%s: paracuda run says that all is well", name)
	}
	r.boot()
	return took
}
