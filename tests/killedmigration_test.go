// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestKilledInAMigration kills the device process that the VM leaves, or the one that it comes to,
// at a random moment of a live migration: while memory goes ahead, while the VM is paused, and as
// its programs are made again. Either the VM goes on where it was, or it is there, each time with
// its programs. After a migration that failed the next one succeeds.
func TestKilledInAMigration(t *testing.T) {
	needsReleases(t)
	rounds, image := migrations(t, 4, 16), keepingRoot(t)
	inReleases(t, migrators, "11", func(t *testing.T, version string) {
		m := newMovingOf(t, []string{"--keeper", "on"}, version, image)
		takes := m.timed(nil)
		seen := map[string]int{}
		for i := range rounds {
			side := []string{"source", "destination"}[i%2]
			now := m.moves
			m.timed(func(source, destination *served) {
				d := source
				if side == "destination" {
					d = destination
				}
				time.Sleep(rand.N(takes * 5 / 4))
				_ = syscall.Kill(d.cmd.Process.Pid, syscall.SIGUSR2) // its keeper kills it
			})
			if m.moves == now {
				seen[side+": stays"]++
				m.timed(nil)
				if m.moves == now {
					t.Fatal("the migration after one that failed fails, too")
				}
			} else {
				seen[side+": moved"]++
			}
		}
		t.Logf("a migration takes %v; killed at the %v", takes, seen)
	})
}

// timed migrates the VM, and says how long that takes. Meanwhile it calls disturb. If the migration
// fails, the VM must run on.
func (m *moving) timed(disturb func(source, destination *served)) time.Duration {
	m.t.Helper()
	begin := time.Now()
	try := func() bool {
		m.g.monitor("migrate_set_capability return-path on")
		g, device := m.g, m.device
		line := "unix:" + filepath.Join(m.dir, fmt.Sprint("line", m.places))
		m.start("-incoming", line)
		m.g.answers()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if disturb != nil {
				disturb(device, m.device)
			}
		}()
		begin = time.Now()
		moved := m.send(g, device, line)
		<-done
		if moved {
			m.leave(g, device)
			m.moves++
			return true
		}
		m.leave(m.g, m.device)
		m.g, m.device, m.control = g, device, m.before
		return disturb != nil
	}
	m.insist(try)
	takes := time.Since(begin)
	m.g.runs()
	m.compute()
	return takes
}
