// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/vm"
)

// racyBegins is a line of the kernel's log, after which the race begins that is to be found.
const racyBegins = "now a module with a race is loaded"

// TestDriverHasNoRaces has KCSAN watch what the guest driver does when many threads ask for
// anything at all, and when a program runs. Then a module with a race shows that one would have
// been found. It is for the night: the kernel's own races count, too, since reports of User Mode
// Linux have no names of functions.
func TestDriverHasNoRaces(t *testing.T) {
	boots(t)
	if os.Getenv("PARACUDA_RANDOM") == "" && !atNight {
		skip(t, "make debug-kernel and make nightly do")
	}
	const kernel = "7.2-races"
	release, err := vm.FindAssets().Release(vm.UML, kernel)
	if err != nil {
		skip(t, "no such kernel here: %v", err)
	}
	racy := filepath.Join(root, "build/modules", release, "racy/racy.ko")
	if _, err := os.Stat(racy); err != nil {
		t.Fatalf("%v: run make debug-kernel", err)
	}
	seed, requests := randomRequests()
	script := `"$0" random "$1" "$2" && "$3" || exit 1
		echo "$5" >/dev/kmsg
		for round in $(seq 20); do
			insmod "$4" 2>/dev/null; dmesg | grep -q KCSAN: && break
		done; true`
	r, log := inDebugKernel(t, frontEnds[0], kernel, script, driverTest(t), seed, requests,
		filepath.Join(programs, "vectoradd"), racy, racyBegins)
	if r.exit != 0 {
		t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
	}
	drivers, modules, loaded := strings.Cut(log, racyBegins)
	if found := kernelFault.FindAllString(drivers, 5); found != nil {
		t.Errorf("the kernel has found faults:\n%s\n%s", strings.Join(found, "\n"), tail(drivers))
	}
	if !loaded || !strings.Contains(modules, "BUG: KCSAN: data-race") {
		t.Errorf("the kernel has not found the module's race:%s%s", tail(modules), tail(r.stderr))
	}
}
