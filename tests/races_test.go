// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/vm"
)

// racyBegins is a line in the kernel's log. After it comes the race that must be found.
const racyBegins = "now a module with a race is loaded"

// TestDriverHasNoRaces runs the guest driver under KCSAN, while many threads make random requests,
// and while a program runs. Then a module with a race shows that KCSAN finds one. The test runs at
// night only: races of the kernel's own count, too, since User Mode Linux reports no names of
// functions.
func TestDriverHasNoRaces(t *testing.T) {
	boots(t)
	if os.Getenv("PARACUDA_RANDOM") == "" && !atNight {
		skip(t, "make debug-kernel and make nightly run it")
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
		t.Errorf("KCSAN hasn't found the module's race:%s%s", tail(modules), tail(r.stderr))
	}
}
