// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/internal/leaks"
)

// faultScript runs in the VM. It reads what to do, one word a line, and answers with a line each.
const faultScript = `good=$0 busy=$1
while read -r word; do
	case $word in
	begin) "$busy" 0 2>/tmp/said & p=$!; echo began ;;
	KILL | STOP | CONT) kill -s "$word" $p; echo sent ;;
	end)
		kill -s KILL $p 2>/dev/null; wait $p 2>/dev/null
		echo "ended $? $(tr '\n' '|' </tmp/said)" ;;
	next)
		"$good" >/tmp/out 2>/tmp/said
		echo "next $? $(tr '\n' '|' </tmp/out)$(head -c 500 /tmp/said | tr '\n' '|')" ;;
	esac
done`

// faultRig is a VM under an arbiter. In each round a program copies and computes in it until it is
// killed. Then another one runs.
type faultRig struct {
	*testing.T
	vm      frontEnd
	busy    string
	gate    string // the arbiter's socket
	arbiter *background

	control         string
	run             *exec.Cmd
	words           io.WriteCloser // to the script
	lines           chan string    // from it
	errors          *strings.Builder
	ended           chan struct{}
	keeper, starter int
}

func newFaultRig(t *testing.T, vm frontEnd) *faultRig {
	t.Helper()
	r := &faultRig{T: t, vm: vm, busy: build(t, "tests/guests/busy.c", "-ldl"),
		gate: filepath.Join(t.TempDir(), "arbiter")}
	r.startArbiter()
	r.boot()
	t.Cleanup(r.end)
	return r
}

func (r *faultRig) startArbiter() {
	r.Helper()
	r.arbiter = inBackground(r.T, paracuda, "arbiter", "--socket", r.gate)
	until(r.T, 20*time.Second, "the arbiter answers", func() bool {
		return exec.Command(paracuda, "top", "--arbiter", r.gate, "--json").Run() == nil
	})
}

// boot starts a VM, and finds its keeper and starter.
func (r *faultRig) boot() {
	r.Helper()
	r.control = filepath.Join(r.TempDir(), "control")
	r.run = exec.Command(paracuda, "run", "--keeper", "on", "--vm", r.vm.name, "--gpu", "soft",
		"--arbiter", r.gate, "--control", r.control, "--set", "starts=0", "--", "sh", "-c",
		faultScript, filepath.Join(programs, follower), r.busy)
	r.run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	r.run.WaitDelay = 10 * time.Second
	r.errors = &strings.Builder{}
	r.run.Stderr = r.errors
	out, w := io.Pipe()
	r.run.Stdout = w
	var err error
	if r.words, err = r.run.StdinPipe(); err != nil {
		r.Fatal(err)
	}
	if err := r.run.Start(); err != nil {
		r.Fatal(err)
	}
	lines, ended, run := make(chan string, 16), make(chan struct{}), r.run
	r.lines, r.ended = lines, ended
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	go func() {
		_ = run.Wait()
		_ = w.Close()
		close(ended)
	}()
	r.next()
	r.find()
}

// find looks for the keeper and the starter, which stay: other processes come and go.
func (r *faultRig) find() {
	r.Helper()
	r.keeper, r.starter = 0, 0
	for _, child := range leaks.Children(r.run.Process.Pid) {
		if words := commandOf(child); len(words) > 1 && words[1] == "device" {
			r.keeper = child
		}
	}
	for _, device := range leaks.Children(r.keeper) {
		for _, starter := range leaks.Children(device) { // it outlives its parent
			r.starter = starter
		}
	}
	if r.keeper == 0 || r.starter == 0 {
		r.Fatalf("pid %d (paracuda run): found the keeper %d and the starter %d, 0 is none",
			r.run.Process.Pid, r.keeper, r.starter)
	}
}

// pids returns the VM's processes that have a role now.
func (r *faultRig) pids(role string) (pids []int) {
	switch role {
	case "front end":
		for _, child := range leaks.Children(r.run.Process.Pid) {
			if slices.ContainsFunc(commandOf(child), isFrontEnd) {
				pids = append(pids, child)
			}
		}
		return pids
	case "device":
		return leaks.Children(r.keeper)
	}
	return ofRole(r.starter, role)
}

// isFrontEnd says whether a word of a command line names the program of a front end. QEMU's may be
// behind the dynamic linker.
func isFrontEnd(word string) bool {
	name := filepath.Base(word)
	return name == "linux" || strings.HasPrefix(name, "qemu-system-")
}

// ofRole returns a process's descendants that have a role.
func ofRole(ancestor int, role string) (pids []int) {
	for _, child := range leaks.Children(ancestor) {
		if words := commandOf(child); len(words) > 1 && words[1] == role {
			pids = append(pids, child)
		}
		pids = append(pids, ofRole(child, role)...)
	}
	return pids
}

// say sends a word to the script, and returns the answer without its first word.
func (r *faultRig) say(word, answer string) string {
	r.Helper()
	fmt.Fprintln(r.words, word)
	ctx, cancel := withPatience(r.Context(), r.vm.boot+r.vm.limit)
	defer cancel()
	for {
		select {
		case line, is := <-r.lines:
			if !is {
				r.Fatalf("%s: the VM has ended:%s", word, tail(r.errors.String()))
			}
			if rest, found := strings.CutPrefix(line, answer); found {
				return strings.TrimPrefix(rest, " ")
			}
		case <-ctx.Done():
			r.Fatalf("%s: no line %q in time:%s", word, answer, tail(r.errors.String()))
		}
	}
}

// next runs a well-formed program, whose output must be right.
func (r *faultRig) next() {
	r.Helper()
	want := "0 " + strings.ReplaceAll(wellFormed(r.T).stdout, "\n", "|")
	if got := r.say("next", "next"); got != want {
		r.Fatalf("the next program: %q, want %q", got, want)
	}
}

// freed waits until no worker is left on the host.
func (r *faultRig) freed() {
	r.Helper()
	for w := patienceOf(time.Minute); len(r.pids("worker")) > 0; time.Sleep(time.Millisecond) {
		if w.over() {
			r.Fatalf("workers are left: %v, want none", r.pids("worker"))
		}
	}
}

// forgotten waits until the device process counts no program.
func (r *faultRig) forgotten() {
	r.Helper()
	until(r.T, time.Minute, "the device process has forgotten the program", func() bool {
		a := r.ask()
		return a != nil && len(a.Programs) == 0
	})
}

// ask returns the device process's statistics. nil: there is no such process now.
func (r *faultRig) ask() *admin.Answer { return statistics(r.control) }

// files counts the descriptors of the processes that stay, by role.
func (r *faultRig) files() map[string]int {
	files := map[string]int{}
	for role, pids := range map[string][]int{"keeper": {r.keeper}, "starter": {r.starter},
		"device": r.pids("device"), "mover": r.pids("mover")} {
		for _, pid := range pids {
			list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
			files[role] += len(list)
		}
	}
	return files
}

// end ends the VM.
func (r *faultRig) end() {
	_ = r.words.Close()
	_ = r.run.Process.Signal(syscall.SIGTERM)
	go func() { // drop the rest of the output
		for range r.lines {
		}
	}()
	if !awaits(r.ended, time.Minute) {
		_ = syscall.Kill(-r.run.Process.Pid, syscall.SIGKILL)
		<-r.ended
		r.Error("the VM did not end")
	}
	if r.Failed() {
		r.Logf("the VM's errors:%s", tail(r.errors.String()))
	}
}
