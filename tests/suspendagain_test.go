// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestSuspendedAgain suspends and resumes a VM again and again, while its program computes and
// compares. From the second time on only what has changed is copied, also by the next device
// process after one was killed, as long as suspend-keep allows to keep the host's copy.
func TestSuspendedAgain(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		r := startKeptOf(t, vm, filepath.Join(programs, "keeps"), "0")
		r.set(t, "suspend-keep=1G")
		moved := regexp.MustCompile(`^suspended: (\d+) bytes moved out(?: \((\d+) changed\))?, `)
		for i := range keptRounds(t, 12) {
			said := r.must(t, "suspend")
			m := moved.FindStringSubmatch(said)
			if m == nil || (m[2] != "") != (i > 0) {
				t.Fatalf("round %d: %q, want how much has changed from the second round on", i,
					said)
			}
			if i > 0 && number(t, m[2]) > number(t, m[1])/2 {
				t.Errorf("round %d: more than half was copied: %q", i, said)
			}
			if i%4 == 2 {
				r.kill()
				if state := r.state(t); state != "suspended" {
					t.Fatalf("the VM is %s after a kill, want suspended", state)
				}
			}
			r.must(t, "resume")
			if text := r.must(t, "stats"); !strings.Contains(text, " kept in the host's memory") {
				t.Fatalf("stats doesn't say that the copy is kept: %s", text)
			}
			r.goesOn(t, "round "+strconv.Itoa(i))
			if i%4 == 1 {
				r.kill()
				r.state(t)
				r.goesOn(t, "after a kill")
			}
		}
		r.must(t, "suspend")
		r.asDocumented(t, codeBlock(t, "docs/suspend.md", "paracuda resume /run"), "")
		r.must(t, "resume")
		r.set(t, "suspend-keep=0")
		if text := r.must(t, "stats"); strings.Contains(text, "kept in the host's memory") {
			t.Errorf("with suspend-keep=0 the copy is still kept: %s", text)
		}
		if said := r.must(t, "suspend"); strings.Contains(said, "changed") {
			t.Errorf("with suspend-keep=0: %q, want all copied", said)
		}
		r.must(t, "resume")
		r.goesOn(t, "at the end")
	})
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
