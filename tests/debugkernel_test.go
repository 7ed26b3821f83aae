// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vm"
)

// kernelFault is a line of the guest kernel's that tells of a fault: of KASAN, lockdep, UBSAN, the
// debugging of objects and lists, and of what every kernel looks for.
var kernelFault = regexp.MustCompile(`(?m)^.*(BUG:|WARNING:|KASAN|UBSAN|ODEBUG|DEBUG_LOCKS_WARN` +
	`|possible (circular|recursive)|inconsistent lock state|suspicious RCU|INFO: |Oops` +
	`|sleeping function called|refcount_t|corrupt).*$`)

// Where memory is made short, the kernel also says "VM_FAULT_OOM leaked out to the #PF handler": it
// had none for a page of the test program's own, and tries again. The driver handles no such fault:
// all that it maps it maps at once.

// moduleLine is what a kernel says when it loads the guest driver. What it has found before that is
// its own: User Mode Linux uses RCU where lockdep doesn't like it, while it starts processors.
const moduleLine = "paracuda: loading out-of-tree module taints kernel"

// fewRequests are made at random where PARACUDA_RANDOM doesn't say how many.
const fewRequests = "1000"

// randomRequests are the arguments of paracuda-test random: PARACUDA_SEED, or the time, and how
// many requests there are to be at least.
func randomRequests() (seed, requests string) {
	return setting("PARACUDA_SEED", strconv.FormatInt(time.Now().UnixNano(), 10)),
		setting("PARACUDA_RANDOM", fewRequests)
}

// inDebugKernel runs a shell's script under a kernel that looks for faults of the guest driver's,
// and returns its result and what the kernel has said since it loaded the driver.
func inDebugKernel(t *testing.T, f frontEnd, kernel, script string, args ...string) (result,
	string) {
	t.Helper()
	if _, err := vm.FindAssets().Release(vm.Kind(f.name), kernel); err != nil {
		skip(t, "no such kernel here: %v", err)
	}
	const log = "the kernel says:\n"
	script = "(" + script + `); code=$?; echo "` + strings.TrimSpace(log) + `"; dmesg; exit $code`
	r := f.start(t, untilSilent(5*time.Minute), append([]string{"--kernel", kernel,
		"--mem", debugMemory(), "--set", "channels=8", "--", "sh", "-c", script}, args...)...)
	said, kernelSays, ok := strings.Cut(r.stdout, log)
	if !ok {
		t.Fatalf("the script didn't end, exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
	}
	_, kernelSays, ok = strings.Cut(kernelSays, moduleLine)
	if !ok {
		t.Fatalf("the kernel doesn't say that it has loaded the driver:%s", tail(kernelSays))
	}
	r.stdout = said
	if err := os.WriteFile(filepath.Join(logDir(t), "kernel.log"), []byte(kernelSays),
		0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", tail(said))
	return r, kernelSays
}

// TestRandomRequests has many threads ask the driver for anything at all, under ordinary kernels.
func TestRandomRequests(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, f frontEnd) {
		seed, requests := randomRequests()
		r := f.start(t, untilSilent(f.boot+f.limit), "--set", "channels=8", "--", "sh", "-c",
			`"$0" random "$1" "$2" && "$3"`, driverTest(t), seed, requests,
			filepath.Join(programs, "vectoradd"))
		if r.exit != 0 {
			t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
		}
		t.Logf("%s", tail(r.stdout))
	})
}

// debugMemory is what the debug kernel has: User Mode Linux faults by itself when it runs out of
// it, as it does with many random requests.
func debugMemory() string {
	if os.Getenv("PARACUDA_RANDOM") != "" {
		return "6G"
	}
	return "1G"
}

// TestDriverUnderDebugKernel has KASAN, lockdep and others watch what happens when each allocation
// of each request fails in turn, and when many threads ask for anything at all; then a program runs
// as ever, and nothing is lost. TestKernelDriver's filling of queues takes too long there.
func TestDriverUnderDebugKernel(t *testing.T) {
	boots(t)
	seed, requests := randomRequests()
	script := `"$0" faults && "$0" random "$1" "$2" && "$3" && "$0" leaks &&
		grep debug_locks: /proc/lockdep_stats`
	r, log := inDebugKernel(t, frontEnds[0], "7.2-debug", script, driverTest(t), seed, requests,
		filepath.Join(programs, "vectoradd"))
	if r.exit != 0 || !regexp.MustCompile(`debug_locks: +1`).MatchString(r.stdout) {
		t.Errorf("exit code %d, or lockdep is off:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
	}
	if found := kernelFault.FindAllString(log, 5); found != nil {
		t.Errorf("the kernel has found faults:\n%s\n%s", strings.Join(found, "\n"), tail(log))
	}
}
