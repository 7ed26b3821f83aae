// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/internal/leaks"
)

// keptRoundsIn is keptRounds with other few in User Mode Linux than in QEMU, which is slower.
func keptRoundsIn(t *testing.T, vm frontEnd, uml, qemu int) int {
	t.Helper()
	if vm.isQEMU() {
		return keptRounds(t, qemu)
	}
	return keptRounds(t, uml)
}

// keptRounds is how often a device process is killed: PARACUDA_KILLS, or few.
func keptRounds(t *testing.T, few int) int {
	t.Helper()
	n, err := strconv.Atoi(setting("PARACUDA_KILLS", strconv.Itoa(few)))
	if err != nil || n < 1 {
		t.Fatalf("PARACUDA_KILLS: want a number of kills: %d, %v", n, err)
	}
	return n
}

// keptRig is a VM whose device has a keeper.
type keptRig struct {
	*policyRig
	keeper, starter int    // their pids
	others          uint64 // how many other programs start while bounds looks, at least
}

// keptRun is the command line that starts such a VM.
var keptRun = []string{paracuda, "run", "--keeper", "on"}

// startKept starts such a VM, with two programs: one computes and compares without end, the other
// one starts and ends again and again. The VM ends if one of them fails.
func startKept(t *testing.T, vm frontEnd, other string) *keptRig {
	t.Helper()
	const script = `"$0" 0 & first=$!
while "$1" >/dev/null; do kill -0 $first || exit 1; done
exit 1`
	r := startKeptOf(t, vm, "sh", "-c", script, filepath.Join(programs, "keeps"),
		filepath.Join(programs, other))
	r.others = 3
	return r
}

// startKeptOf starts such a VM with a command. The program keeps must be among what that starts.
func startKeptOf(t *testing.T, vm frontEnd, words ...string) *keptRig {
	t.Helper()
	return startKeptBy(t, vm, keptRun, words...)
}

// startKeptBy does the same with another command line.
func startKeptBy(t *testing.T, vm frontEnd, run []string, words ...string) *keptRig {
	t.Helper()
	r := &keptRig{policyRig: startPolicyRigBy(t, vm, run, words...)}
	until(t, r.limit, "the program computes", func() bool { return r.progress(t) > 500 })
	for _, child := range leaks.Children(r.pid) {
		if slices.Contains(commandOf(child), "--keeper") {
			r.keeper = child
		}
	}
	r.findStarter()
	if r.keeper == 0 || r.starter == 0 {
		t.Fatalf("pid %d (paracuda run): found the keeper %d and the starter %d, 0 is none", r.pid,
			r.keeper, r.starter)
	}
	return r
}

// findStarter looks for the starter process among the device process's children.
func (r *keptRig) findStarter() {
	for _, device := range leaks.Children(r.keeper) {
		for _, starter := range leaks.Children(device) { // it outlives its parent
			r.starter = starter
		}
	}
}

// commandOf is a process's command line.
func commandOf(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
}

// alive fails the test if the VM has ended: it ends if a program fails.
func (r *keptRig) alive(t *testing.T) {
	t.Helper()
	select {
	case <-r.ended:
		t.Fatal("the VM has ended: a program failed")
	default:
	}
}

// progress is the number of commands that the program keeps has had executed, or the slower one of
// the two of keepsshared. 0: it isn't there yet.
func (r *keptRig) progress(t *testing.T) uint64 {
	t.Helper()
	r.alive(t)
	a := r.ask()
	if a == nil {
		return 0
	}
	least := uint64(0)
	for _, p := range a.Programs {
		n := p.Stats["commands"]
		if (p.Name == "keeps" || p.Name == "keepsshared") && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// ask returns the statistics of the present device process. nil: it was killed meanwhile.
func (r *keptRig) ask() *admin.Answer { return statistics(r.socket) }

// goesOn waits until the program keeps has computed more.
func (r *keptRig) goesOn(t *testing.T, when string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			r.report(t)
		}
	}()
	var before uint64
	until(t, time.Minute, when+": the device answers", func() bool {
		before = r.progress(t)
		return before != 0
	})
	until(t, time.Minute, when+": the program computes", func() bool {
		return r.progress(t) > before+100
	})
}

// report logs what the device process says of a VM that doesn't go on, twice: what moves differs.
func (r *keptRig) report(t *testing.T) {
	t.Helper()
	for range 2 {
		c := command(t, time.Minute, root, paracuda, "stats", "--json", r.socket)
		t.Logf("paracuda stats: exit code %d\n%s%s", c.exit, c.stdout, c.stderr)
		time.Sleep(time.Second)
	}
	r.threads(t, r.pid)
}

// threads logs what the threads of a process and of its children wait for.
func (r *keptRig) threads(t *testing.T, pid int) {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		var said []string
		for _, file := range []string{"comm", "wchan", "syscall"} {
			text, _ := os.ReadFile(filepath.Join(task, file))
			said = append(said, strings.TrimSpace(string(text)))
		}
		t.Logf("%s: %s", task, strings.Join(said, ", "))
	}
	for _, child := range leaks.Children(pid) {
		r.threads(t, child)
	}
}

// kill has the keeper kill the device process (SIGKILL). The keeper counts that as no crash, and
// only crashes are bounded.
func (r *keptRig) kill() { _ = syscall.Kill(r.keeper, syscall.SIGUSR2) }

// killAfter kills the device process after a random time.
func (r *keptRig) killAfter(most time.Duration) (killed <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(rand.N(most))
		r.kill()
	}()
	return done
}

// takes counts the VM's processes and their descriptors, by role.
func (r *keptRig) takes(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	var count func(pid int)
	count = func(pid int) {
		words := commandOf(pid)
		if len(words) < 2 {
			return
		}
		files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		all[words[1]+" descriptors"] += len(files)
		all[words[1]+" processes"]++
		for _, child := range leaks.Children(pid) {
			count(child)
		}
	}
	count(r.keeper)
	count(r.starter)
	return all
}

// bounds are the least and the most that takes counts in some seconds, or as long as it takes until
// other programs have started and ended.
func (r *keptRig) bounds(t *testing.T) (least, most map[string]int) {
	t.Helper()
	least, most = r.takes(t), map[string]int{}
	enough, w := r.starts()+r.others, patienceOf(r.limit)
	for i := 0; i < 500 || r.starts() < enough; i++ {
		if w.over() {
			t.Fatalf("%d programs have started, want %d", r.starts(), enough)
		}
		for what, n := range r.takes(t) {
			if was, is := least[what]; is {
				least[what] = min(was, n)
			}
			most[what] = max(most[what], n)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return least, most
}

// starts is how many programs have begun to use the GPU. 0: the device process was killed.
func (r *keptRig) starts() uint64 {
	a := r.ask()
	if a == nil {
		return 0
	}
	return a.Stats["starts"]
}

// TestDeviceProcessIsKilledUnderLoad kills the device process again and again, at random moments,
// while a program computes and others start and end. None of them fails, and neither descriptors
// nor processes grow.
func TestDeviceProcessIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		r := startKept(t, vm, follower)
		r.kill()
		r.goesOn(t, "the first time")
		_, before := r.bounds(t)
		for i := range keptRoundsIn(t, vm, 40, 10) {
			<-r.killAfter(150 * time.Millisecond)
			if i%5 == 0 {
				r.goesOn(t, fmt.Sprintf("round %d", i))
			}
		}
		r.goesOn(t, "at the end")
		after, _ := r.bounds(t)
		for what, n := range after {
			if n > before[what] {
				t.Errorf("%s: at least %d after the rounds, before at most %d", what, n,
					before[what])
			}
		}
	})
}

// TestKilledWhileProgramsShare kills the device process at random moments, while processes of a
// program share memory and pools by descriptors, which the device process keeps for them.
func TestKilledWhileProgramsShare(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"shareable", "sharedpools", "ipc"} {
		t.Run(program, func(t *testing.T) {
			inEach(t, func(t *testing.T, vm frontEnd) {
				r := startKept(t, vm, program)
				for range keptRoundsIn(t, vm, 20, 5) {
					<-r.killAfter(150 * time.Millisecond)
				}
				r.goesOn(t, "at the end")
			})
		})
	}
}

// TestKilledInAChange kills the device process in the middle of suspend and resume. Then the VM is
// either suspended or running, and can be brought to the other state.
func TestKilledInAChange(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		r := startKept(t, vm, follower)
		seen := map[string]int{}
		for i := range keptRoundsIn(t, vm, 20, 5) {
			name := "suspend"
			if r.state(t) == "suspended" {
				name = "resume"
			}
			killed := r.killAfter(60 * time.Millisecond)
			command(t, time.Minute, root, paracuda, name, r.socket) // fails if it was killed
			<-killed
			now := r.state(t)
			seen[name+" then "+now]++
			if i%4 == 3 && now == "suspended" {
				r.must(t, "resume")
				now = "running"
			}
			if now == "running" {
				r.goesOn(t, fmt.Sprintf("round %d", i))
			}
		}
		t.Logf("%v", seen)
		if r.state(t) == "suspended" {
			r.must(t, "resume")
		}
		r.goesOn(t, "at the end")
	})
}

// state waits until the VM is either running or suspended, and returns which.
func (r *keptRig) state(t *testing.T) (state string) {
	t.Helper()
	until(t, time.Minute, "the device says whether it is suspended", func() bool {
		r.alive(t)
		a := r.ask()
		if a == nil || a.State == nil {
			return false
		}
		state = string(a.State.State)
		return state == "running" || state == "suspended"
	})
	return state
}
