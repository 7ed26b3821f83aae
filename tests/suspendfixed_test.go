// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// stayers are programs with what keeps them where they are, and the words by which that is told.
var stayers = map[string][]string{
	"keepsshared": {"shared_events", "shared_memory", "shared_pools", "virtual_memory"},
	"keepsfixed":  {"graphs", "green_contexts", "virtual_memory"},
	"keepsfailed": {"its context has failed"},
}

// stayersScript runs them, and ends when one of them does.
const stayersScript = `for p; do "$p" 0 & done; wait -n; exit 1`

// TestFixedSuspended suspends and resumes a VM again and again, in the middle of what stays where
// it is: memory, pools and events that two processes share, memory that is mapped by hand, memory
// of graphs and kernels, green contexts, linkers, and a context that has failed. To a file none of
// it goes, which is refused with all the reasons, and the programs go on.
func TestFixedSuspended(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(stayers))
	words := []string{"bash", "-c", stayersScript, "bash"}
	for _, name := range names {
		words = append(words, filepath.Join(programs, name))
	}
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startPolicyRigOf(t, vm, words...)
		all := len(stayers) + 1 // keepsshared is two processes
		p.allGoOn(t, all)
		for range times(10, 50) {
			p.suspend(t)
			before := p.executed(t)
			if len(before) != all {
				t.Fatalf("the programs are %v", before)
			}
			if after := p.executed(t); !maps.Equal(after, before) {
				t.Fatalf("commands were executed while the VM is suspended: %v, then %v",
					before, after)
			}
			p.must(t, "resume")
			p.allGoOn(t, all)
			p.staysHere(t)
			p.allGoOn(t, all)
		}
	})
}

// staysHere fails unless the VM can't be saved, and all the reasons are told.
func (p *policyRig) staysHere(t *testing.T) {
	t.Helper()
	r := command(t, time.Minute, root, paracuda, "suspend", "--to",
		filepath.Join(t.TempDir(), "state"), p.socket)
	if r.exit == 0 {
		t.Fatal("what can't be made again was saved")
	}
	for name, reasons := range stayers {
		_, said, _ := strings.Cut(r.stderr, name+" (pid ")
		said, _, _ = strings.Cut(said, "(pid ")
		for _, why := range reasons {
			if !strings.Contains(said, why) {
				t.Fatalf("%s: %q isn't in:%s", name, why, tail(r.stderr))
			}
		}
	}
}

// executed is how many commands each of the programs has had executed.
func (p *policyRig) executed(t *testing.T) map[string]uint64 {
	t.Helper()
	select {
	case <-p.ended:
		t.Fatal("the VM has ended: a program failed")
	default:
	}
	done := map[string]uint64{}
	for _, x := range p.answer(t).Programs {
		done[fmt.Sprint(x.Name, " ", x.PID)] = x.Stats["commands"]
	}
	return done
}

// allGoOn waits until so many programs have all had more commands executed, but for the one that
// has failed: its calls don't get to the GPU any more.
func (p *policyRig) allGoOn(t *testing.T, n int) {
	t.Helper()
	var before, now map[string]uint64
	until(t, p.limit, "all programs are there", func() bool {
		before = p.answered(t)
		return len(before) == n
	})
	until(t, p.limit, "all programs compute", func() bool {
		now = p.answered(t)
		for name, was := range before {
			if now[name] < was+20 && !strings.HasPrefix(name, "keepsfailed ") {
				return false
			}
		}
		return true
	})
}

// answered is executed, or nothing where the device doesn't answer yet.
func (p *policyRig) answered(t *testing.T) map[string]uint64 {
	t.Helper()
	if r := command(t, time.Minute, root, paracuda, "stats", "--json", p.socket); r.exit != 0 {
		return nil
	}
	return p.executed(t)
}
