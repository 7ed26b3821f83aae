// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestFullDisk: if output can't be written, one line says so, and the exit code isn't 0.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	const full = "no space left on device"
	for name, script := range map[string]string{
		"version": `"$0" version >/dev/full`, "help": `"$0" --help >/dev/full`,
		"probe":        `"$0" probe >/dev/full`,
		"capabilities": `"$0" device --print-capabilities >/dev/full`,
	} {
		if r := command(t, time.Minute, root, "sh", "-c", script, paracuda); r.exit != 1 ||
			!saysOnly(r.stderr, full) {
			t.Errorf("%s: exit code %d, want 1 and one line with %q:%s", name, r.exit, full,
				tail(r.stderr))
		}
	}
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		for _, option := range []string{"--stats", "--trace"} {
			r := vm.run(t, vm.limit, option, "/dev/full", "--", "echo", "text")
			if r.exit != 1 || r.stdout != "text\n" ||
				!saysOnly(r.stderr, option+": write /dev/full: "+full) {
				t.Errorf("%s: exit code %d, output %q, want 1, \"text\" and one line with %q:%s",
					option, r.exit, r.stdout, full, tail(r.stderr))
			}
		}
		r := vm.run(t, vm.limit, "--stats", "/dev/full", "--", "sh", "-c", "exit 7")
		if r.exit != 7 {
			t.Errorf("exit code %d, want the program's, 7", r.exit)
		}
	})
}

// TestOutputOnFullDisk: paracuda run fails if the program's output can't be written, though the
// program has ended well. A reader that goes away is no failure.
func TestOutputOnFullDisk(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		run := []string{paracuda, "run", "--vm", vm.name, "--gpu", "soft", "--", "echo", "text"}
		for script, want := range map[string]string{`"$@" >/dev/full`: "no space left on device",
			`"$@" | true`: ""} {
			r := command(t, vm.boot+vm.limit, root,
				append([]string{"sh", "-c", script, "sh"}, run...)...)
			said := slowVM.ReplaceAllString(r.stderr, "")
			if (r.exit != 0) != (want != "") || said != "" != (want != "") ||
				!strings.Contains(said, want) {
				t.Errorf("%s: exit code %d, want a failure and %q (\"\": no failure):%s", script,
					r.exit, want, tail(said))
			}
		}
	})
}

// saysOnly says whether a text is one line of paracuda's that ends with these words.
func saysOnly(text, with string) bool {
	return regexp.MustCompile(`^paracuda: [^\n]*` + regexp.QuoteMeta(with) +
		`\n$`).MatchString(slowVM.ReplaceAllString(text, ""))
}
