// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/vm"
)

// racyBegins is a line in the kernel's log. After it comes the race that must be found.
const racyBegins = "now a module with a race is loaded"

// TestDriverHasNoRaces runs the guest driver under KCSAN: its own tests, many threads that make
// random requests, and a program. Reports count that name the driver's functions. Then a module
// with a race shows that KCSAN finds one, and names its functions. The test runs at night only.
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
	script := `"$0" && "$0" random "$1" "$2" && "$3" || exit 1
		echo "$5" >/dev/kmsg
		for round in $(seq 20); do
			insmod "$4" 2>/dev/null; dmesg | grep -q "\[racy\]" && break
		done; true`
	r, log := inDebugKernel(t, frontEnds[0], kernel, script, driverTest(t), seed, requests,
		filepath.Join(programs, "vectoradd"), racy, racyBegins)
	if r.exit != 0 {
		t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
	}
	drivers, modules, loaded := strings.Cut(log, racyBegins)
	own, rest := racesOf("paracuda", drivers)
	if own != nil {
		t.Errorf("the driver has races:\n%s", strings.Join(own, "\n"))
	}
	if found := kernelFault.FindAllString(rest, 5); found != nil {
		t.Errorf("the kernel has found faults:\n%s\n%s", strings.Join(found, "\n"), tail(rest))
	}
	if own, _ := racesOf("racy", modules); !loaded || own == nil {
		t.Errorf("KCSAN hasn't found the module's race:%s%s", tail(modules), tail(r.stderr))
	}
}

// race matches a report of KCSAN's.
var race = regexp.MustCompile(`(?s)[^\n]*BUG: KCSAN: .*?={30,}\n`)

// hint matches the first function that is no part of KCSAN's, if it is one of the driver of
// virtqueues that read event_triggered: vring_interrupt sets it, says that this is a race (by
// data_race, for which KCSAN sees "unknown origin") and why it does no harm: it is only a hint that
// the device needn't be told to be silent.
var hint = regexp.MustCompile(`(?s)unknown origin.*?__tsan_\w+\+[^\n]*\n[^\n]*\] +` +
	`virtqueue_(dis|en)able_cb`)

// racesOf returns the reports in a kernel's log that name a module's functions, and the log without
// any reports. The kernel's own races are others' concern.
func racesOf(module, log string) (own []string, rest string) {
	for _, report := range race.FindAllString(log, -1) {
		if strings.Contains(report, "["+module+"]") && !hint.MatchString(report) {
			own = append(own, report)
		}
	}
	return own, race.ReplaceAllString(log, "")
}

// TestRacesOfAModule tells reports that name a module's functions from others.
func TestRacesOfAModule(t *testing.T) {
	report := func(origin, function string) string {
		const at = "[  151.340000] "
		return at + "BUG: KCSAN: data-race in save_stack_trace\n\n" +
			at + origin + " 0x00000000a0860000 of 1 bytes by task 188 on cpu 1:\n" +
			at + " kcsan_setup_watchpoint+0x3e9/0x5b0\n" + at + " __tsan_read1+0x1df/0x200\n" +
			at + " " + function + "+0x20/0x40\n" + at + " paracuda_take+0x63/0xc0 [paracuda]\n" +
			at + strings.Repeat("=", 66) + "\n"
	}
	const unknown, known = "race at unknown origin, with read to", "read to"
	own := report(known, "virtqueue_disable_cb")
	for text, want := range map[string]bool{
		own:                                      true,
		report(unknown, "virtqueue_disable_cb"):  false,
		report(unknown, "virtqueue_add_sgs"):     true,
		strings.ReplaceAll(own, "paracuda", "x"): false,
		report(unknown, "virtqueue_enable_cb_prepare") + own: true,
	} {
		races, rest := racesOf("paracuda", "[    1.000000] one\n"+text+"[    2.000000] two\n")
		if rest != "[    1.000000] one\n[    2.000000] two\n" || (races != nil) != want ||
			want && len(races) != 1 {
			t.Errorf("%s: races %q, want some: %v; the rest: %q", text, races, want, rest)
		}
	}
}
