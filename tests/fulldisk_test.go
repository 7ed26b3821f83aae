// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestFullDisk: what can't be written is said in one line, and the exit code isn't 0.
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
			t.Errorf("%s: exit code %d:%s", name, r.exit, tail(r.stderr))
		}
	}
	inEach(t, func(t *testing.T, vm frontEnd) {
		for _, option := range []string{"--stats", "--trace"} {
			r := vm.run(t, vm.limit, option, "/dev/full", "--", "echo", "text")
			if r.exit != 1 || r.stdout != "text\n" ||
				!saysOnly(r.stderr, option+": write /dev/full: "+full) {
				t.Errorf("%s: exit code %d: %q%s", option, r.exit, r.stdout, tail(r.stderr))
			}
		}
		r := vm.run(t, vm.limit, "--stats", "/dev/full", "--", "sh", "-c", "exit 7")
		if r.exit != 7 {
			t.Errorf("the program's exit code 7 is %d", r.exit)
		}
	})
}

// TestOutputOnFullDisk: a program that has ended doesn't learn that its output is lost. paracuda
// run does.
func TestOutputOnFullDisk(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		run := []string{paracuda, "run", "--vm", vm.name, "--gpu", "soft", "--", "echo", "text"}
		for script, want := range map[string]string{`"$@" >/dev/full`: "no space left on device",
			`"$@" | true`: ""} {
			r := command(t, vm.boot+vm.limit, root,
				append([]string{"sh", "-c", script, "sh"}, run...)...)
			said := slowVM.ReplaceAllString(r.stderr, "")
			if (r.exit != 0) != (want != "") || said != "" != (want != "") ||
				!strings.Contains(said, want) {
				t.Errorf("%s: exit code %d:%s", script, r.exit, tail(said))
			}
		}
	})
}

func saysOnly(text, with string) bool {
	return regexp.MustCompile(`^paracuda: [^\n]*` + regexp.QuoteMeta(with) +
		`\n$`).MatchString(slowVM.ReplaceAllString(text, ""))
}
