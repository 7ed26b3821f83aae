// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// follower is the well-formed program that must work after every failure.
const follower = "vectoradd"

func wellFormed(t testing.TB) program {
	t.Helper()
	p := program{file: follower}
	if err := p.expect("programs/want"); err != nil {
		t.Fatal(err)
	}
	return p
}

// byDay are the programs that run in a front end by day: those that take long run in one only.
func byDay(t *testing.T, all []program, vm frontEnd) (here []program) {
	t.Helper()
	if atNight {
		return all
	}
	var left []string
	for _, p := range all {
		elsewhere := slices.ContainsFunc(wantedFrontEnds(),
			func(name string) bool { return name != vm.name && p.has(name) })
		if elsewhere && !p.has(vm.name) {
			left = append(left, p.id())
			continue
		}
		here = append(here, p)
	}
	fmt.Printf("%s: without %s, which run in another front end; make nightly runs all in each\n",
		t.Name(), strings.Join(left, ", "))
	return here
}

// TestPrograms runs every program of the list in one VM. After each failure a well-formed program
// must work. No test takes longer.
func TestPrograms(t *testing.T) {
	t.Parallel()
	all := slices.DeleteFunc(readPrograms(t),
		func(p program) bool { return p.has("gpu") || p.has("older") || p.has("two") })
	inEach(t, func(t *testing.T, vm frontEnd) {
		all := byDay(t, all, vm)
		var jobs []job
		for _, p := range all {
			file := filepath.Join(programs, p.file)
			jobs = append(jobs, job{p.id(), vm.limit, append([]string{file}, p.args...)})
			if p.has("failure") {
				jobs = append(jobs, job{"after-" + p.id(), vm.limit,
					[]string{filepath.Join(programs, follower)}})
			}
		}
		stats := filepath.Join(logDir(t), "stats.json")
		got := vm.batch(t, jobs, "--stats", stats)
		for _, p := range all {
			t.Run(p.id(), func(t *testing.T) { p.check(t, got, p.id()) })
			if p.has("failure") {
				t.Run("after-"+p.id(),
					func(t *testing.T) { wellFormed(t).check(t, got, "after-"+p.id()) })
			}
		}
		t.Run("stats", func(t *testing.T) { checkStats(t, stats, len(jobs)) })
	})
}

// check compares how a run ended with how it must end.
func (p program) check(t *testing.T, got map[string]outcome, id string) {
	o, ran := got[id]
	switch {
	case !ran:
		t.Fatal("it didn't run: the VM had ended before")
	case o.lost:
		t.Fatal("the VM ended while it ran")
	case o.exit != p.exit && (o.exit == 124 || o.exit == 137):
		t.Errorf("it took too long: %v, exit code %d, want %d", o.took, o.exit, p.exit)
	case o.exit != p.exit:
		t.Errorf("exit code %d, want %d", o.exit, p.exit)
	}
	if o.stdout != p.stdout && !p.has("bits") {
		t.Errorf("standard output:%s\nwant:%s", tail(o.stdout), tail(p.stdout))
	}
	if p.stderr == nil && o.stderr != "" {
		t.Errorf("standard error, want none:%s", tail(o.stderr))
	}
	if p.stderr != nil && !p.stderr.MatchString(o.stderr) {
		t.Errorf("standard error doesn't match %v:%s", p.stderr, tail(o.stderr))
	}
	t.Logf("took %v", o.took)
}
