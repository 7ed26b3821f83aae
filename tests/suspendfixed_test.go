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

// stayers are programs that can't be saved, and the reasons that must be given for each.
var stayers = map[string][]string{
	"keepsfixed": {"green_contexts"},
	"keepsheap":  {"its kernels allocate memory with malloc"},
}

// togetherScript runs several programs without end, and ends when one of them ends.
const togetherScript = `for p; do "$p" 0 & done; wait -n; exit 1`

// TestFixedSuspended suspends and resumes a VM again and again, while its programs use what can't
// be saved: memory of graphs and kernels, green contexts and linkers. To suspend to a file is
// refused with all the reasons, and the programs go on, beside two that share memory.
func TestFixedSuspended(t *testing.T) {
	t.Parallel()
	names := append(slices.Sorted(maps.Keys(stayers)), "keepsshared")
	words := []string{"bash", "-c", togetherScript, "bash"}
	for _, name := range names {
		words = append(words, filepath.Join(programs, name))
	}
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startPolicyRigOf(t, vm, words...)
		all := len(names) + 1 // keepsshared is two processes
		p.allGoOn(t, all)
		for range times(10, 50) {
			p.suspend(t)
			before := p.executed(t)
			if len(before) != all {
				t.Fatalf("the programs are %v, want %d of them", before, all)
			}
			if after := p.executed(t); !maps.Equal(after, before) {
				t.Fatalf("commands were executed while the VM was suspended: %v, then %v",
					before, after)
			}
			p.must(t, "resume")
			p.allGoOn(t, all)
			p.staysHere(t)
			p.allGoOn(t, all)
		}
	})
}

// TestFailedSuspended suspends and resumes a VM, in memory and to a file in turn, while a program
// whose context has failed is told so again and again, and another one computes.
func TestFailedSuspended(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		p := startPolicyRigOf(t, vm, "bash", "-c", togetherScript, "bash",
			filepath.Join(programs, "keeps"), filepath.Join(programs, "keepsfailed"))
		file := filepath.Join(t.TempDir(), "state")
		for range times(3, 20) {
			p.allGoOn(t, 2)
			p.suspend(t)
			p.must(t, "resume")
			p.allGoOn(t, 2)
			p.must(t, "suspend", "--to", file)
			if a := p.answer(t); len(a.Programs) != 0 || !a.State.Saved {
				t.Fatalf("%+v, %+v, want no program, saved", a.Programs, a.State)
			}
			p.must(t, "resume", "--from", file)
		}
		p.allGoOn(t, 2)
	})
}

// staysHere fails unless suspending to a file is refused with all the reasons.
func (p *policyRig) staysHere(t *testing.T) {
	t.Helper()
	r := command(t, time.Minute, root, paracuda, "suspend", "--to",
		filepath.Join(t.TempDir(), "state"), p.socket)
	if r.exit == 0 {
		t.Fatal("the VM was suspended to a file, want a refusal")
	}
	for name, reasons := range stayers {
		_, said, _ := strings.Cut(r.stderr, name+" (pid ")
		said, _, _ = strings.Cut(said, "(pid ")
		for _, why := range reasons {
			if !strings.Contains(said, why) {
				t.Fatalf("%s: the refusal doesn't give the reason %q:%s", name, why, tail(r.stderr))
			}
		}
	}
}

// executed is the number of commands that each program has had executed.
func (p *policyRig) executed(t *testing.T) map[string]uint64 {
	t.Helper()
	done := p.answered(t)
	if done == nil {
		t.Fatal("the device process doesn't answer")
	}
	return done
}

// answered is executed, or nil while the device process doesn't answer yet.
func (p *policyRig) answered(t *testing.T) map[string]uint64 {
	t.Helper()
	select {
	case <-p.ended:
		t.Fatal("the VM has ended: a program failed")
	default:
	}
	a := statistics(p.socket)
	if a == nil {
		return nil
	}
	done := map[string]uint64{}
	for _, x := range a.Programs {
		done[fmt.Sprint(x.Name, " ", x.PID)] = x.Stats["commands"]
	}
	return done
}

// allGoOn waits until there are n programs, and each has had more commands executed. The one whose
// context has failed doesn't count: its calls don't get to the GPU any more.
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
