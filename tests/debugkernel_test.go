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

// kernelFault matches a line of the guest's kernel about a fault: from KASAN, lockdep, UBSAN, the
// debugging of objects and lists, and from what every kernel checks.
var kernelFault = regexp.MustCompile(`(?m)^.*(BUG:|WARNING:|KASAN|UBSAN|ODEBUG|DEBUG_LOCKS_WARN` +
	`|possible (circular|recursive)|inconsistent lock state|suspicious RCU|INFO: |Oops` +
	`|sleeping function called|refcount_t|corrupt).*$`)

// kernelFault leaves out "VM_FAULT_OOM leaked out to the #PF handler". The kernel says that where
// tests make memory short: it had none for a page of the test program's own, and tries again. It is
// no fault of the driver's, which handles no page faults: it maps its memory at once.

// moduleLine is what a kernel says when it loads the guest driver. Faults found before that are the
// kernel's own: lockdep complains of how User Mode Linux uses RCU while it starts processors.
const moduleLine = "paracuda: loading out-of-tree module taints kernel"

// debugKernel looks for faults of its own while it runs (scripts/build-uml).
const debugKernel = "7.2-debug"

// fewRequests is the number of random requests if PARACUDA_RANDOM isn't set.
const fewRequests = "1000"

// randomRequests are the arguments of paracuda-test random: the seed, which is PARACUDA_SEED or the
// time, and the least number of requests.
func randomRequests() (seed, requests string) {
	return setting("PARACUDA_SEED", strconv.FormatInt(time.Now().UnixNano(), 10)),
		setting("PARACUDA_RANDOM", fewRequests)
}

// inDebugKernel runs a shell script under a kernel that looks for faults of the guest driver. It
// returns the result, and what the kernel has said since it loaded the driver.
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
		t.Fatalf("the kernel doesn't say %q:%s", moduleLine, tail(r.stdout))
	}
	r.stdout = said
	if err := os.WriteFile(filepath.Join(logDir(t), "kernel.log"), []byte(kernelSays),
		0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", tail(said))
	return r, kernelSays
}

// TestRandomRequests has many threads make random requests of the driver, under ordinary kernels.
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

// debugMemory is the memory of the VM with the debug kernel. With many random requests it needs
// more: User Mode Linux has faults of its own when memory runs out.
func debugMemory() string {
	if os.Getenv("PARACUDA_RANDOM") != "" {
		return "6G"
	}
	return "1G"
}

// TestDriverUnderDebugKernel tests the driver under KASAN, lockdep and others. Each allocation of
// each request fails in turn, and many threads make random requests. Then a program must still
// work, and nothing may have leaked. The part of TestKernelDriver that fills queues would take too
// long.
func TestDriverUnderDebugKernel(t *testing.T) {
	boots(t)
	seed, requests := randomRequests()
	script := `"$0" faults && "$0" random "$1" "$2" && "$3" && "$0" leaks &&
		grep debug_locks: /proc/lockdep_stats`
	r, log := inDebugKernel(t, frontEnds[0], debugKernel, script, driverTest(t), seed, requests,
		filepath.Join(programs, "vectoradd"))
	if r.exit != 0 || !regexp.MustCompile(`debug_locks: +1`).MatchString(r.stdout) {
		t.Errorf("exit code %d, want 0 and lockdep still on (debug_locks: 1):%s%s", r.exit,
			tail(r.stdout), tail(r.stderr))
	}
	if found := kernelFault.FindAllString(log, 5); found != nil {
		t.Errorf("the kernel has found faults:\n%s\n%s", strings.Join(found, "\n"), tail(log))
	}
}
