// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/internal/leaks"
)

// suspends is how often TestManySuspends suspends the VM. `make stress-suspends` sets
// PARACUDA_SUSPENDS, for more.
func suspends(t *testing.T) int {
	t.Helper()
	text := cmp.Or(os.Getenv("PARACUDA_SUSPENDS"), fmt.Sprint(times(40, 200)))
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("PARACUDA_SUSPENDS is %q, want a number of times", text)
	}
	return n
}

// growth is how much more memory, in KiB, a process may have after any number of rounds: garbage
// that isn't collected yet.
const growth = 24 << 10

// TestManySuspends suspends and resumes a VM again and again, each fifth time to a file, while its
// program computes and compares. Nothing is lost, and neither descriptors nor memory nor processes
// grow.
func TestManySuspends(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		r := startKeptOf(t, vm, filepath.Join(programs, "keeps"), "0")
		rounds, dir := suspends(t), t.TempDir()
		round := func(i int) {
			file := filepath.Join(dir, "state")
			to, from := []string{"suspend"}, []string{"resume"}
			if i%5 == 4 {
				to, from = append(to, "--to", file), append(from, "--from", file)
			}
			r.must(t, to[0], to[1:]...)
			r.must(t, from[0], from[1:]...)
			_ = os.Remove(file)
			if i%5 == 3 {
				r.goesOn(t, fmt.Sprintf("round %d", i))
			}
		}
		for i := range min(rounds, 20) {
			round(i)
		}
		_, most := r.bounds(t)
		before := r.memory(t)
		for i := range rounds {
			round(i)
		}
		r.goesOn(t, "at the end")
		least, _ := r.bounds(t)
		for what, n := range least {
			if n > most[what] {
				t.Errorf("%s: at least %d after the rounds, before at most %d", what, n,
					most[what])
			}
		}
		after := r.memory(t)
		for role, kib := range after {
			if kib > before[role]+growth {
				t.Errorf("the %s had %d KiB, and has %d after the rounds: want at most %d more",
					role, before[role], kib, growth)
			}
		}
		t.Logf("%d rounds; KiB before %v, after %v; %v", rounds, before, after, least)
	})
}

// memory is the anonymous memory, in KiB, of the largest process of each role. It is the least of
// what is seen in two seconds, since garbage may not be collected yet.
func (r *keptRig) memory(t *testing.T) map[string]int {
	t.Helper()
	least := map[string]int{}
	for range 20 {
		now := map[string]int{}
		for _, pid := range append(leaks.Family(r.keeper), leaks.Family(r.starter)...) {
			if words := commandOf(pid); len(words) > 1 {
				now[words[1]] = max(now[words[1]], anonymous(pid))
			}
		}
		for role, kib := range now {
			if was, is := least[role]; !is || kib < was {
				least[role] = kib
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return least
}

// anonymous is a process's anonymous memory, in KiB.
func anonymous(pid int) (kib int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "RssAnon:"); is {
			kib, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return kib
}
