// SPDX-License-Identifier: Apache-2.0

package sleeping

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/admission"
	"github.com/paracuda/paracuda/gpubackend/worker/eventfd"
)

// rig is a Sleeping of which everything says what the test wants, and notes what it is told.
type rig struct {
	*Sleeping
	mem  []byte
	kick int

	calls     int
	announced bool // the first one's answer, in slot 0
	settled   int
	copies    bool // copies are under way
	goesOn    bool // one of them should still be
	busy      bool // there are host functions
	moved     bool // one of them goes on
	held      bool
	grows     time.Time
	spin      time.Duration
	asleep    atomic.Bool
	more      bool // there are more chains
	kicks     int  // how often kicks were enabled, less how often disabled
	slept     bool // they were disabled again
	counts    map[handover.Counter]uint64

	soon, inFlight, unfinished bool
	watched                    []admission.Pause
	fd                         int
}

// The parts of the rig.
type (
	calls     struct{ *rig }
	copies    struct{ *rig }
	functions struct{ *rig }
	queue     struct{ *rig }
	gate      struct{ *rig }
	mover     struct{ fd int }
	watchdog  struct{ *rig }
)

func (c calls) Len() int                          { return c.calls }
func (c calls) Announced() (uint16, uint32, bool) { return 0, 1, c.calls == 1 && c.announced }
func (c calls) Settle()                           { c.settled++ }
func (c copies) Active() bool                     { return c.copies }
func (c copies) GoOn(time.Time) bool              { return c.goesOn }
func (f functions) Busy() bool                    { return f.busy }
func (f functions) Advance() bool                 { return f.moved }
func (q queue) EnableKick() (bool, error)         { q.kicks++; return q.more, nil }
func (q queue) DisableKick()                      { q.kicks--; q.slept = true }
func (g gate) Soon() bool                         { return g.soon }
func (g gate) InFlight() bool                     { return g.inFlight }
func (g gate) Unfinished() bool                   { return g.unfinished }
func (g gate) Watch(q admission.Pause)            { g.watched = append(g.watched, q) }
func (g gate) WaitFD() int                        { return g.fd }
func (m mover) FD() int                           { return m.fd }
func (w watchdog) SetAsleep(yes bool)             { w.asleep.Store(yes) }

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{mem: make([]byte, arena.MinBytes), fd: -1, counts: map[handover.Counter]uint64{}}
	a, err := arena.New(r.mem)
	if err != nil {
		t.Fatal(err)
	}
	if r.kick, err = eventfd.New(); err != nil {
		t.Fatal(err)
	}
	files, err := NewFiles(r.kick)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(files.Close)
	r.Sleeping = New(Config{
		Files: files, Arena: func() *arena.Arena { return a }, Queue: queue{r}, Gate: gate{r},
		Calls: calls{r}, Copies: copies{r}, HostFuncs: functions{r},
		Held: func() bool { return r.held }, Grows: func() time.Time { return r.grows },
		Spin: func() time.Duration { return r.spin }, Watchdog: watchdog{r},
		Count: func(n handover.Counter, by uint64) { r.counts[n] += by },
	})
	return r
}

// append says that the guest has appended a command.
func (r *rig) append() {
	binary.LittleEndian.PutUint32(r.mem[wire.ArenaHeaderAppendedOffset:], 8)
}

// file is a descriptor that is readable.
func file(t *testing.T) int {
	t.Helper()
	fd, err := eventfd.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	eventfd.Notify(fd)
	return fd
}

// TestRest: while a call waits the worker looks again and again without sleep, for a time, and the
// guest need not kick.
func TestRest(t *testing.T) {
	for name, c := range map[string]struct {
		spin  time.Duration
		idle  time.Duration
		calls int
		do    func(*rig)
		sleep bool
	}{
		"polls":                   {spin: 500 * us, idle: 400 * us, calls: 1},
		"naps":                    {spin: 500 * us, idle: 4000 * us, calls: 1},
		"sleeps after a long nap": {spin: 500 * us, idle: 2 * napUntil, calls: 1, sleep: true},
		"doesn't nap unasked":     {idle: 4000 * us, calls: 1, sleep: true},
		"sleeps when nobody does": {spin: 500 * us, idle: 4000 * us, sleep: true},
		"a copy has a descriptor, and the GPU has none": {
			spin: 500 * us, idle: 4000 * us, do: func(r *rig) { r.copies = true }},
		"a copy that nobody tells of": {
			spin: 500 * us, idle: 4000 * us, do: func(r *rig) { r.goesOn = true }},
		"for too long": {spin: 500 * us, idle: (wire.CopySpins + 1) * 500 * us,
			do: func(r *rig) { r.goesOn = true }, sleep: true},
		"a gate that opens soon":    {idle: time.Second, do: func(r *rig) { r.soon = true }},
		"work that somebody awaits": {idle: 1000 * us, do: func(r *rig) { r.inFlight = true }},
		"for long": {idle: 2 * napUntil, do: func(r *rig) { r.inFlight = true },
			sleep: true},
		"a wait like the last one": {spin: 500 * us, idle: 20 * napUntil, calls: 1,
			do: func(r *rig) { r.quiet.last = 20 * napUntil }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.spin, r.calls = c.spin, c.calls
			if c.do != nil {
				c.do(r)
			}
			// Again, if the machine kept the test from its processor for too long in between.
			for again := true; again; again = !c.sleep && r.quiet.idle >= c.idle+100*us {
				r.slept, r.settled = false, 0
				r.quiet.since = time.Now().Add(-c.idle)
				r.Files.Wake() // ends the sleep
				if err := r.Rest(); err != nil {
					t.Fatal(err)
				}
			}
			if r.slept != c.sleep || r.settled != 1 || r.kicks != 0 || r.asleep.Load() {
				t.Errorf("slept %v, settled %d times, asleep %v", r.slept, r.settled,
					r.asleep.Load())
			}
			if got := r.counts[handover.Sleeps] > 0; got != c.sleep {
				t.Errorf("counted sleep: %v", got)
			}
			q := r.watched[len(r.watched)-1]
			if q.Idle < c.idle || q.Spin != c.spin || q.Waits != (c.calls > 0 || r.copies) {
				t.Errorf("the gate was told %+v", q)
			}
			if r.Stir(); !r.quiet.since.IsZero() {
				t.Error("something happened, and it is quiet still")
			}
		})
	}
}

// TestNoSleep: who is about to sleep looks once more, and says so to the guest before.
func TestNoSleep(t *testing.T) {
	sleeping := func(r *rig) bool {
		return binary.LittleEndian.Uint32(r.mem[wire.ArenaHeaderWorkerSleepingOffset:]) != 0
	}
	for name, c := range map[string]struct {
		do    func(*rig)
		sleep bool
	}{
		"a command":              {func(r *rig) { r.append() }, false},
		"a command that is held": {func(r *rig) { r.append(); r.held = true }, true},
		"a chain":                {func(r *rig) { r.more = true }, false},
		"a host function":        {func(r *rig) { r.moved = true }, false},
		"one at a held ring": {func(r *rig) {
			r.moved, r.busy, r.held = true, true, true
		}, false},
		"nothing": {func(*rig) {}, true},
	} {
		r := newRig(t)
		c.do(r)
		r.Files.Wake()
		if err := r.Rest(); err != nil {
			t.Fatal(err)
		}
		if got := r.counts[handover.Sleeps] > 0; got != c.sleep {
			t.Errorf("%s: slept %v", name, got)
		}
		if sleeping(r) {
			t.Errorf("%s: the guest would kick a worker that is awake", name)
		}
	}
}

// TestWhatWakes: a kick does, and is counted; a message; the mover if a copy is under way; the gate
// if the worker waits for it.
func TestWhatWakes(t *testing.T) {
	for name, do := range map[string]func(*testing.T, *rig){
		"kick":    func(_ *testing.T, r *rig) { eventfd.Notify(r.kick) },
		"message": func(_ *testing.T, r *rig) { r.Files.Wake() },
		"mover": func(t *testing.T, r *rig) {
			r.Mover, r.copies = mover{file(t)}, true
		},
		"gate": func(t *testing.T, r *rig) { r.fd = file(t) },
	} {
		r := newRig(t)
		do(t, r)
		if err := r.Rest(); err != nil {
			t.Fatal(err)
		}
		if got := r.counts[handover.Kicks] > 0; got != (name == "kick") {
			t.Errorf("%s: %d kicks", name, r.counts[handover.Kicks])
		}
	}
	// They are taken: the next sleep is one.
	r := newRig(t)
	eventfd.Notify(r.kick)
	r.Files.Wake()
	r.unfinished = true // it isn't for ever
	for range 2 {
		if err := r.Rest(); err != nil {
			t.Fatal(err)
		}
	}
	if r.counts[handover.Kicks] != 1 {
		t.Errorf("%d kicks", r.counts[handover.Kicks])
	}
}

// TestPauses: a sleep is for ever unless something is under way that has no descriptor, or a wait
// at the gate is to be counted.
func TestPauses(t *testing.T) {
	r := newRig(t)
	if p := r.pause(time.Second); p >= 0 {
		t.Errorf("a pause of %v with nothing to do", p)
	}
	for _, do := range []func(on bool){
		func(on bool) { r.unfinished = on }, func(on bool) { r.copies = on },
		func(on bool) { r.calls = map[bool]int{true: 1}[on] },
	} {
		do(true)
		for _, x := range [][2]time.Duration{{0, minPause}, {64 * 100 * us, 100 * us},
			{time.Hour, maxPause}} {
			if p := r.pause(x[0]); p != x[1] {
				t.Errorf("a pause of %v after %v", p, x[0])
			}
		}
		do(false)
	}
	if r.fd = 0; r.pause(time.Hour) != closedPause {
		t.Errorf("a pause of %v at a closed gate", r.pause(time.Hour))
	}
	r.fd = -1
	r.grows = time.Now().Add(time.Hour)
	if p := r.pause(0); p < time.Minute || p > time.Hour {
		t.Errorf("a pause of %v while a batch grows for an hour", p)
	}
	r.calls = 1
	if p := r.pause(0); p != minPause {
		t.Errorf("a pause of %v with a call", p)
	}
	r.grows = time.Now().Add(-time.Second)
	if p := r.pause(0); p != 0 {
		t.Errorf("a pause of %v when a batch is to end", p)
	}
}

// TestLinger: the short time passes only where nothing needs a turn of the loop.
func TestLinger(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*rig)
		idle bool
	}{
		"nothing":        {func(*rig) {}, true},
		"command":        {func(r *rig) { r.append() }, false},
		"call":           {func(r *rig) { r.calls = 1 }, false},
		"announced call": {func(r *rig) { r.calls, r.announced = 1, true }, true},
		"two":            {func(r *rig) { r.calls, r.announced = 2, true }, false},
		"growing batch":  {func(r *rig) { r.grows = time.Now() }, false},
		"host function":  {func(r *rig) { r.busy = true }, false},
		"copy":           {func(r *rig) { r.copies = true }, false},
		"call and command": {func(r *rig) {
			r.calls, r.announced = 1, true
			r.append()
		}, false},
		"answer": {func(r *rig) {
			r.calls, r.announced = 1, true
			binary.LittleEndian.PutUint32(r.mem[wire.Slots+wire.SlotDoneOffset:], 1)
		}, false},
	} {
		r := newRig(t)
		c.do(r)
		if got := r.Linger(); got != c.idle {
			t.Errorf("%s: idle %v", name, got)
		}
	}
}

// TestAwaitKick: a worker that takes no commands waits for some, whatever the queue has.
func TestAwaitKick(t *testing.T) {
	r := newRig(t)
	r.more, r.held = true, true
	eventfd.Notify(r.kick)
	if work, err := r.AwaitKick(); work || err != nil || r.kicks != 0 {
		t.Errorf("a kick for nothing: %v, %v", work, err)
	}
	r.append()
	if work, err := r.AwaitKick(); !work || err != nil {
		t.Errorf("a command: %v, %v", work, err)
	}
	r.Arena = func() *arena.Arena { return nil }
	r.Files.Wake()
	if work, err := r.AwaitKick(); work || err != nil {
		t.Errorf("without an arena: %v, %v", work, err)
	}
}

// TestAnotherKick: a worker that gets its queue back has another kick with it.
func TestAnotherKick(t *testing.T) {
	r := newRig(t)
	fd, err := eventfd.New()
	if err != nil {
		t.Fatal(err)
	}
	r.Files.SetKick(fd)
	eventfd.Notify(fd)
	if err := r.Rest(); err != nil || r.counts[handover.Kicks] != 1 {
		t.Errorf("%v, %d kicks", err, r.counts[handover.Kicks])
	}
}
