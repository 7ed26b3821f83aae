// SPDX-License-Identifier: Apache-2.0

package arbiter_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/arbiter"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

// Bounds of what is simulated.
const (
	faults = 3 * time.Minute // for how long arbiters are killed and stopped
	after  = 2 * time.Minute // for how long there is one then
	// mostStarved is how long a VM may have work that isn't done while an arbiter lives: its turns
	// come in 10 times as long as moves take, and a move that fails rests as long.
	mostStarved = 100 * time.Second
	// mostWrong is how long an arbiter may believe something of a VM's place that isn't so.
	mostWrong = 8 * time.Second
)

// simulation is a host with a GPU, an arbiter that comes and goes, and VMs. The arbiter, the
// clients, their places and suspensions are the real ones. Time, connections, programs and their
// memory are simulated. Nothing is the same twice but the dice: goroutines run in any order.
type simulation struct {
	*testing.T
	network
	total   uint64
	repeats bool // VMs tell each second where they are
	vms     []*vm

	used struct {
		sync.Mutex
		bytes uint64
	}
	trace struct {
		sync.Mutex
		begin time.Time
		lines []string
	}
}

// take takes memory of the GPU, if there is so much.
func (s *simulation) take(bytes uint64) bool {
	s.used.Lock()
	defer s.used.Unlock()
	if s.used.bytes+bytes > s.total {
		return false
	}
	s.used.bytes += bytes
	return true
}

func (s *simulation) give(bytes uint64) {
	s.used.Lock()
	defer s.used.Unlock()
	s.used.bytes -= bytes
}

// note keeps what happened, for the log of a failure.
func (s *simulation) note(who, format string, args ...any) {
	s.trace.Lock()
	defer s.trace.Unlock()
	s.trace.lines = append(s.trace.lines, fmt.Sprintf("%10.3f %s ",
		time.Since(s.trace.begin).Seconds(), who)+fmt.Sprintf(format, args...))
	if n := len(s.trace.lines); n > 4000 {
		s.trace.lines = append([]string(nil), s.trace.lines[n/2:]...)
	}
}

// failed ends the simulation with what happened last.
func (s *simulation) failed(format string, args ...any) {
	s.trace.Lock()
	lines := s.trace.lines[max(0, len(s.trace.lines)-400):]
	s.trace.Unlock()
	s.Errorf(format+"\n%s", append(args, strings.Join(lines, "\n"))...)
}

// arbiterNow is the one that lives; nil: none does.
func (s *simulation) arbiterNow() *simulatedArbiter {
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	return s.host
}

func (s *simulation) setArbiter(a *simulatedArbiter) {
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	s.host = a
}

// trouble kills arbiters, stops them, and starts others.
func (s *simulation) trouble(dice *rand.Rand) {
	begin := time.Now()
	upTo := func(d time.Duration) time.Duration { return time.Duration(dice.Int64N(int64(d))) }
	for time.Since(begin) < faults {
		time.Sleep(upTo(20 * time.Second))
		a := s.arbiterNow()
		if dice.IntN(3) == 0 {
			d := upTo(8 * time.Second)
			s.note("arbiter", "is stopped for %v", d)
			a.stop(d)
			time.Sleep(d)
			continue
		}
		s.note("arbiter", "is killed")
		s.setArbiter(nil)
		a.kill()
		time.Sleep(upTo(7 * time.Second))
		s.note("arbiter", "is there again")
		s.setArbiter(startArbiter(s.T))
	}
}

// check looks at what must hold at any time. It says whether it does.
func (s *simulation) check() bool {
	a := s.arbiterNow()
	if a == nil || a.frozen() {
		s.forgive()
		return true
	}
	believed := map[string]string{}
	for _, x := range a.VMs() {
		believed[x.Name] = x.Place
	}
	if a != s.arbiterNow() || a.frozen() {
		s.forgive()
		return true
	}
	for _, v := range s.vms {
		if why := v.check(believed[v.name]); why != "" {
			s.failed("%s: %s; the arbiter has %v; it is %+v, and %+v", v.name, why, believed,
				v.suspension.Status(), *v.place.Place())
			return false
		}
	}
	return true
}

// forgive is for times in which nobody decides.
func (s *simulation) forgive() {
	for _, v := range s.vms {
		v.mu.Lock()
		v.wrong, v.ran = time.Time{}, time.Now()
		v.mu.Unlock()
	}
}

// check says what is wrong.
func (v *vm) check(believed string) string {
	is := v.suspension.State()
	v.mu.Lock()
	defer v.mu.Unlock()
	works := false
	for _, w := range v.workers {
		works = works || w.busy
	}
	now := time.Now()
	if !works {
		v.ran = now
	}
	agrees := believed == "out" && is == suspend.Suspended ||
		believed == "resident" && is == suspend.Running
	if agrees {
		v.wrong = time.Time{}
	} else if v.wrong.IsZero() {
		v.wrong = now
	}
	switch {
	case !v.wrong.IsZero() && now.Sub(v.wrong) > mostWrong:
		return fmt.Sprintf("for %v it is %s, and the arbiter believes %q", now.Sub(v.wrong), is,
			believed)
	case now.Sub(v.ran) > mostStarved:
		return fmt.Sprintf("it has work that isn't done for %v", now.Sub(v.ran))
	}
	return ""
}

func (s *simulation) run(seed uint64, vms int) {
	defer arbiter.SimulateHost()()
	dice := rand.New(rand.NewPCG(seed, 0))
	s.network.dice = rand.New(rand.NewPCG(seed, 2))
	s.slow = 300 * time.Millisecond
	s.total, s.trace.begin = 1000, time.Now()
	s.setArbiter(startArbiter(s.T))
	for i := range vms {
		v := s.newVM(fmt.Sprint("vm", i), seed+uint64(i)<<32)
		s.vms = append(s.vms, v)
		v.ran = time.Now()
		v.begin()
	}
	var ended sync.WaitGroup
	ended.Go(func() { s.trouble(dice) })
	for begin := time.Now(); time.Since(begin) < faults+after && s.check(); {
		time.Sleep(50 * time.Millisecond)
	}
	ended.Wait()
	for _, v := range s.vms {
		v.end()
	}
	s.arbiterNow().kill()
	time.Sleep(time.Minute) // orders that are under way end
	for _, v := range s.vms {
		v.page.Close()
	}
}

// seeds are how many simulations there are: more where nobody waits for them.
func seeds() uint64 {
	if testing.Short() {
		return 2 // with and without messages that come twice
	}
	return 40
}

// TestSimulation has VMs take turns with a GPU's memory while arbiters are killed and stopped. As
// long as one lives each VM that has work gets in, and what the arbiter believes comes to be so.
func TestSimulation(t *testing.T) {
	for seed := range seeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				(&simulation{T: t, repeats: seed%2 == 0}).run(seed, 2+int(seed)%4)
			})
		})
	}
}
