// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/internal/leaks"
)

// TestStarterKilled kills the process that starts workers, again and again. Its workers end with
// it, and the VM's program loses its GPU; but the next program gets the GPU, from another device
// process, which can be replaced as before.
func TestStarterKilled(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		r := startKeptOf(t, vm, "sh", "-c", keepsAgain, filepath.Join(programs, "keeps"))
		for range keptRounds(t, 2) {
			family := leaks.Family(r.starter)
			if err := syscall.Kill(r.starter, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			until(t, time.Minute, "its processes end", func() bool { return !anyLives(family) })
			r.nextStarter(t)
			r.goesOn(t, "another program")
			r.must(t, "device", "--replace", "--control")
			r.goesOn(t, "the same program, after a replacement")
			if !anyLives([]int{r.starter}) {
				t.Fatal("a replacement has ended the starter process")
			}
		}
	})
}

// nextStarter waits for another starter process in place of one that was killed.
func (r *keptRig) nextStarter(t *testing.T) {
	t.Helper()
	before := r.starter
	until(t, time.Minute, "another starter process is there", func() bool {
		r.findStarter()
		return r.starter != before && anyLives([]int{r.starter})
	})
}
