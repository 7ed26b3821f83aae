// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// round counts interrupts while two processes, each on a processor of its own, made 600 calls.
// vectors has a pair for each vector that was raised: how often on the first and on the second
// processor.
type round struct {
	vectors [][2]int
	all     int
}

// calls has the two rounds of calls, and the work of QEMU's main loop for channels, from the VM's
// start to its end.
type calls struct {
	rounds []round
	woken  int  // how often a channel's interrupt passed through the main loop
	tcg    bool // QEMU emulates the processors
	kvm    bool // QEMU uses KVM; neither: it isn't QEMU
}

// makeCalls runs the two processes. They swap processors after the first round.
func makeCalls(t *testing.T, vm frontEnd, spin string) (c calls) {
	t.Helper()
	args := []string{"--cpus", "2", "--set", "spin-guest=" + spin, "--report", "--",
		build(t, "tests/guests/interrupts.c", "-ldl")}
	if !vm.isQEMU() {
		c.rounds = readRounds(t, vm.run(t, vm.limit, args...), 2, 600)
	} else {
		reads := countCallReads(t, qemuProgram(t, "11"), "gpu.sock")
		r := execute(t, within(vm.boot+vm.limit), root, append([]string{"env",
			"PARACUDA_QEMU=" + reads.program, paracuda, "run", "--gpu", "soft"}, args...)...)
		c.rounds, c.woken = readRounds(t, r, 2, 600), reads.channels(t)
		c.tcg = strings.Contains(r.stderr, "(TCG)")
		c.kvm = !c.tcg
	}
	t.Logf("spin-guest=%s: %+v", spin, c)
	return c
}

// readRounds reads the output of the processes for n rounds of that many calls.
func readRounds(t *testing.T, r result, n, calls int) (rounds []round) {
	t.Helper()
	now := round{}
	for line := range strings.Lines(r.stdout) {
		var v [2]int
		if _, err := fmt.Sscanf(line, "vector: %d, %d", &v[0], &v[1]); err == nil {
			now.vectors = append(now.vectors, v)
			now.all += v[0] + v[1]
		} else if strings.HasSuffix(line, fmt.Sprintf(" in %d calls\n", calls)) {
			rounds = append(rounds, now)
			now = round{}
		}
	}
	if r.exit != 0 || len(rounds) != n {
		t.Fatalf("exit code %d, %d rounds, want 0 and %d:%s%s", r.exit, len(rounds), n,
			tail(r.stdout), tail(r.stderr))
	}
	return rounds
}

// TestNoInterruptsWhilePolling: threads that poll need neither interrupts nor QEMU's main loop,
// with each accelerator. If something else wants the processor a thread sleeps after all, so a few
// interrupts are allowed. On a host that is busy there may be more: one run of three must do.
func TestNoInterruptsWhilePolling(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		var why string
		for range 3 {
			if why = makeCalls(t, vm, "1s").disturbed(); why == "" {
				return
			}
			t.Log(why)
		}
		t.Error(why)
	})
}

// disturbed tells which of the calls of threads that poll weren't left alone, or nothing.
func (c calls) disturbed() string {
	const most = 600 / 20
	for _, r := range c.rounds {
		if r.all > most {
			return fmt.Sprintf("%d interrupts in 600 calls, want at most %d", r.all, most)
		}
	}
	if c.woken > 2*most || c.kvm && c.woken != 0 {
		return fmt.Sprintf("%d wake-ups of the main loop while threads poll, want %d at most "+
			"(KVM: 0)", c.woken, 2*most)
	}
	return ""
}

// TestInterruptsOfChannels: a thread that sleeps is woken by its own channel's vector only, on the
// processor where it sleeps. Under TCG the interrupt passes through QEMU's main loop, under KVM it
// doesn't. User Mode Linux has one interrupt for a device.
func TestInterruptsOfChannels(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		want := 2
		if vm.name != "qemu" {
			want = 1
		}
		c, raised := makeCalls(t, vm, "0"), 0
		for _, r := range c.rounds {
			raised += r.all
			if r.all == 0 || r.all > 600*11/10 {
				t.Errorf("%d interrupts in 600 calls, want 1 to %d", r.all, 600*11/10)
			}
			if len(r.vectors) != want {
				t.Errorf("%d vectors were raised, want %d", len(r.vectors), want)
			} else if want > 1 {
				r.apart(t)
			}
		}
		if want > 1 && !t.Failed() && c.rounds[0].first() == c.rounds[1].first() {
			t.Errorf("the vectors didn't follow the threads to the other processor: %+v", c.rounds)
		}
		if c.tcg && c.woken < raised/2 || c.kvm && c.woken != 0 {
			t.Errorf("%d wake-ups of the main loop for %d interrupts, want half or more (KVM: 0)",
				c.woken, raised)
		}
	})
}

// TestInterruptLineFollows: the generic device has one interrupt line for all queues, and no
// vectors. The interrupt follows the thread, too: it comes on the processor where the thread slept
// last, and doesn't disturb the other one.
func TestInterruptLineFollows(t *testing.T) {
	needsQEMU(t)
	program := build(t, "tests/guests/interrupts.c", "-ldl")
	front := frontEnds[slices.IndexFunc(frontEnds, frontEnd.isQEMU)]
	// `turns`: a thread sleeps again where it did before another one slept elsewhere.
	for how, processors := range map[string][]int{"alone": {0, 1}, "turns": {0, 1, 0}} {
		r := front.run(t, front.limit, "--carrier", "generic", "--cpus", "2", "--set",
			"spin-guest=0", "--", program, how)
		rounds := readRounds(t, r, len(processors), 300)
		t.Logf("%s: %+v", how, rounds)
		for i, cpu := range processors {
			if len(rounds[i].vectors) != 1 {
				t.Fatalf("%s: %d interrupt lines were raised, want 1", how,
					len(rounds[i].vectors))
			}
			if v := rounds[i].vectors[0]; v[cpu] == 0 || v[1-cpu] != 0 {
				t.Errorf("%s: the thread slept on processor %d, interrupts on each: %v", how,
					cpu, v)
			}
		}
	}
}

// apart checks that each of the two vectors was raised on one processor only, and not on the same.
func (r round) apart(t *testing.T) {
	t.Helper()
	a, b := r.vectors[0], r.vectors[1]
	if a[1] > a[0] {
		a, b = b, a
	}
	if a[1] != 0 || b[0] != 0 || b[1] == 0 {
		t.Errorf("vectors were raised %v times, want each on one processor of its own", r.vectors)
	}
}

// first is the processor on which the first vector was raised.
func (r round) first() int {
	if r.vectors[0][1] > 0 {
		return 1
	}
	return 0
}
