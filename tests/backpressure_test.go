// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mostResident bounds the private memory of a worker, in KiB. What the program backpressure queues
// is nearly twice as much.
const mostResident = 256 << 10

// TestBackpressure runs a program that queues launches without waiting, and watches its worker's
// memory. The program watches its own.
func TestBackpressure(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		cmd := exec.Command(paracuda, "run", "--vm", vm.name, "--gpu", "soft", "--",
			filepath.Join(programs, "backpressure"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		var out, said strings.Builder
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, 10*time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		late := patienceOf(vm.boot + 4*vm.limit)
		samples, most, watch := 0, 0, workerWatch{ancestor: cmd.Process.Pid}
		for {
			select {
			case err := <-ended:
				const want = "120000 launches queued and done\n"
				if err != nil || out.String() != want {
					t.Errorf("the program: %v, want the output %q:%s%s", err, want,
						tail(out.String()), tail(said.String()))
				}
				if samples < 5 || most == 0 {
					t.Errorf("the worker was seen %d times, want at least 5", samples)
				}
				t.Logf("the worker had %d KiB at most, seen %d times", most, samples)
				return
			case <-time.After(20 * time.Millisecond):
			}
			if late.over() {
				_ = cmd.Process.Signal(syscall.SIGTERM)
				t.Fatalf("not finished: %v%s%s", <-ended, tail(out.String()), tail(said.String()))
			}
			if kib, ok := watch.resident(); ok {
				samples++
				most = max(most, kib)
				if kib > mostResident {
					_ = cmd.Process.Signal(syscall.SIGTERM)
					t.Fatalf("the worker has %d KiB, more than %d: %v", kib, mostResident, <-ended)
				}
			}
		}
	})
}

// workerWatch looks at the private memory of the workers among the descendants of a process. It
// remembers which these are: to go through all of the machine's processes each time would take much
// of a processor.
type workerWatch struct {
	ancestor int
	workers  []string
	asked    time.Time
}

// recall is for how long it is remembered which the workers are.
const recall = 300 * time.Millisecond

// resident returns the private memory, in KiB, of the worker that has most.
func (w *workerWatch) resident() (kib int, ok bool) {
	if time.Since(w.asked) > recall {
		w.workers, w.asked = workersOf(w.ancestor), time.Now()
	}
	for _, pid := range w.workers {
		kib = max(kib, readStatus(pid)["RssAnon"])
	}
	return kib, kib > 0
}

// workersOf are the numbers of the workers among the descendants of a process.
func workersOf(ancestor int) (pids []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		text, err := os.ReadFile(file)
		if args := strings.Split(string(text), "\x00"); err != nil || len(args) < 2 ||
			args[1] != "worker" {
			continue
		}
		pid := filepath.Base(filepath.Dir(file))
		if descends(readStatus(pid), ancestor) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func descends(status map[string]int, ancestor int) bool {
	for parent := status["PPid"]; parent > 1; parent = readStatus(fmt.Sprint(parent))["PPid"] {
		if parent == ancestor {
			return true
		}
	}
	return false
}

// readStatus returns the numbers in a process's status file.
func readStatus(pid string) map[string]int {
	text, _ := os.ReadFile("/proc/" + pid + "/status")
	numbers := map[string]int{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		n := 0
		if _, err := fmt.Sscan(value, &n); err == nil {
			numbers[name] = n
		}
	}
	return numbers
}
