// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestProgramsSuspended runs programs while their VM is suspended and resumed at random moments, in
// the host's memory and to files. The results must be right. By day it runs a few programs, at
// night all (make suspend-programs). PARACUDA_SEED repeats a choice, PARACUDA_ONLY names programs.
// Those that need two GPUs have a VM of their own; by day that is one, in User Mode Linux.
func TestProgramsSuspended(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	inEach(t, func(t *testing.T, vm frontEnd) {
		random := rand.New(rand.NewPCG(seed, uint64(len(vm.name))))
		one, two := toSuspend(t, vm, random)
		fmt.Printf("%s: PARACUDA_SEED=%d: %s\n", t.Name(), seed, idsOf(append(one, two...)))
		suspendEach(t, vm, seed, "soft", one)
		suspendEach(t, vm, seed, "soft:2", two)
	})
}

// suspendEach runs programs in a VM with these GPUs, which is suspended meanwhile.
func suspendEach(t *testing.T, vm frontEnd, seed uint64, gpus string, chosen []program) {
	t.Helper()
	var m *midRig
	for _, p := range chosen {
		if m == nil {
			m = newMidRig(t, vm, seed, gpus)
		}
		if !t.Run(p.id(), func(t *testing.T) { m.of(t).suspends(p) }) {
			m.end() // the VM may be suspended, so the next program gets another one
			m = nil
		}
	}
	if m != nil {
		m.of(t).end()
	}
}

// seedOf is the seed of random choices: PARACUDA_SEED, or the time.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("PARACUDA_SEED"),
		fmt.Sprint(time.Now().UnixNano())), 10, 64)
	if err != nil {
		t.Fatalf("PARACUDA_SEED: %v", err)
	}
	return seed
}

// suspendedByDay is how many programs that need one GPU are suspended in each front end by day.
const suspendedByDay = 5

// toSuspend are the programs that a VM with one GPU runs, and those that need two: all at night,
// and by day some that don't take long.
func toSuspend(t *testing.T, vm frontEnd, random *rand.Rand) (one, two []program) {
	t.Helper()
	slow := func(p program) bool { return p.has("slow") || p.has("uml") || p.has("qemu") }
	all := slices.DeleteFunc(readPrograms(t), func(p program) bool {
		return p.has("gpu") || p.has("older") || p.has("apart") || !atNight && slow(p)
	})
	only := os.Getenv("PARACUDA_ONLY")
	if only != "" {
		all = slices.DeleteFunc(all,
			func(p program) bool { return !slices.Contains(strings.Split(only, ","), p.id()) })
	}
	for _, p := range all {
		if p.has("two") {
			two = append(two, p)
		} else {
			one = append(one, p)
		}
	}
	if only != "" || atNight {
		return one, two
	}
	if vm.name != "uml" {
		two = nil
	}
	return some(one, suspendedByDay, random), some(two, 1, random)
}

// some are n of the programs, or all if there are fewer.
func some(all []program, n int, random *rand.Rand) []program {
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

func idsOf(all []program) string {
	var ids []string
	for _, p := range all {
		ids = append(ids, p.id())
	}
	return strings.Join(ids, ",")
}

// enough is how often a program should use the GPU at the time when its VM is suspended, in either
// way. It is run several times for that.
const enough = 2

// met counts how often a program used the GPU when its VM was suspended, in memory and to a file,
// and the reasons why its VM couldn't be suspended.
type met struct {
	light, full int
	against     map[string]int
}

// done says whether that was often enough.
func (m *met) done() bool { return m.light >= enough && m.full+len(m.against) >= enough }

func (m *met) String() string {
	text := fmt.Sprintf("%d times in memory, %d times to a file", m.light, m.full)
	for why, n := range m.against {
		text += fmt.Sprintf("; refused %d times: %s", n, why)
	}
	return text
}

// suspends runs a program until its VM was suspended often enough while it used the GPU. Each run
// must be right. If the program provokes a failure, another one must be right after it.
func (m *midRig) suspends(p program) {
	m.Helper()
	check := func(o outcome) { p.check(m.T, map[string]outcome{p.id(): o}, p.id()) }
	first := m.through(p, nil)
	check(first)
	was := &met{against: map[string]int{}}
	for i := 0; i < times(3, 8) && !was.done() && !m.Failed(); i++ {
		check(m.disturbed(p, first.took, was))
	}
	if p.has("failure") {
		next := wellFormed(m.T)
		next.check(m.T, map[string]outcome{next.id(): m.through(next, nil)}, next.id())
	}
	m.Logf("suspended %v", was)
	if !m.Failed() && was.light+was.full+len(was.against) == 0 {
		fmt.Printf("%s: the program never used the GPU when its VM was suspended\n", m.Name())
	}
}
