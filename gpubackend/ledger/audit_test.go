// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// driver is what a GPU's driver would say, by the processes' ids.
type driver map[int]uint64

func (d driver) GPUs() []uint64 { return []uint64{testGPU} }

func (d driver) Used(gpu uint64, pid int) (uint64, bool) {
	used, ok := d[pid]
	return used, ok && gpu == testGPU
}

const (
	tolerance = 100
	contexts  = 50
)

// audited is a page with a bound of 1000 and two workers, each with a context.
type audited struct {
	*Audit
	page    *Page
	gpu     *GPU
	a, b    *Account
	running []Running
	driver  driver
}

func newAudited(t *testing.T) *audited {
	t.Helper()
	x := &audited{page: newPage(t, 0), driver: driver{},
		running: []Running{{Entry: 0, PID: 10}, {Entry: 1, PID: 11}}}
	x.Audit = NewAudit(x.page, tolerance)
	x.SetBound(1000)
	x.gpu, x.a, x.b = x.page.GPU(testGPU), account(x.page, 0), account(x.page, 1)
	x.a.Take(Contexts, contexts)
	x.b.Take(Contexts, contexts)
	x.driver[10], x.driver[11] = contexts, contexts
	return x
}

// look marks and looks.
func (x *audited) look() []Running { return x.lookAt(x.driver) }

func (x *audited) lookAt(usage Usage) []Running {
	x.Mark(x.running)
	return x.Look(x.running, usage)
}

// looks are what two looks say.
func (x *audited) looks() []Running { return append(x.look(), x.look()...) }

func TestHonestProcessesLive(t *testing.T) {
	x := newAudited(t)
	x.a.Take(Window, 600)
	x.driver[10] += 600
	x.a.Take(Limits, 100) // which the driver may take later
	if end := x.looks(); end != nil {
		t.Errorf("%v are to end", end)
	}
	if x.gpu.Taken() != 800 {
		t.Errorf("%d taken", x.gpu.Taken())
	}
}

// TestWhatTheDriverTakesByItself counts, and ends nobody while it is within the bound and a little.
func TestWhatTheDriverTakesByItself(t *testing.T) {
	x := newAudited(t)
	x.driver[10] += 400
	if end := x.looks(); end != nil || x.gpu.Taken() != 500 || x.gpu.Holding(0).Other != 400 {
		t.Errorf("%v are to end, %d taken", end, x.gpu.Taken())
	}
	if x.b.Take(Window, 501) || !x.b.Take(Window, 500) {
		t.Error("it doesn't count")
	}
	x.driver[11] += 500 + tolerance
	if end := x.looks(); end != nil {
		t.Errorf("%v are to end within the tolerance", end)
	}
	x.driver[10], x.driver[11] = contexts, contexts
	if x.looks(); x.gpu.Taken() != 600 || x.gpu.Holding(0).Other != 0 {
		t.Errorf("%d taken when the driver has given it back", x.gpu.Taken())
	}
}

// TestLiars take memory past the page, and write to it what they like.
func TestLiars(t *testing.T) {
	for _, test := range []struct {
		name string
		lie  func(x *audited)
	}{
		{"says nothing", func(*audited) {}},
		{"has its entry say that it may", func(x *audited) {
			x.gpu.entry(0).kind(Window).Store(1 << 40)
			x.gpu.entry(0).peak().Store(1 << 40)
		}},
		{"raises the bound", func(x *audited) { x.page.SetBound(1 << 50); x.a.Take(Window, 5000) }},
		{"lowers the sum", func(x *audited) { x.gpu.taken.Store(0); x.a.Take(Window, 990) }},
		{"empties the page", func(x *audited) { clear(x.page.mem) }},
		{"fills the page", func(x *audited) {
			for i := range x.page.mem {
				x.page.mem[i] = 0xff
			}
		}},
		{"changes the GPU's id", func(x *audited) { x.gpu.id.Store(99) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := newAudited(t)
			x.looks()
			test.lie(x)
			x.driver[10] += 5000
			if end := x.look(); end != nil {
				t.Errorf("%v are to end at the first look", end)
			}
			test.lie(x)
			if end := x.look(); !slices.Equal(end, x.running[:1]) {
				t.Errorf("%v are to end, not the one that has too much", end)
			}
			x.End(0)
			delete(x.driver, 10)
			x.running = x.running[1:]
			for range 3 {
				if end := x.looks(); end != nil {
					t.Errorf("%v are to end afterwards", end)
				}
			}
			if x.page.Bound() != 1000 {
				t.Errorf("the bound is %d afterwards", x.page.Bound())
			}
		})
	}
}

// TestMomentsDont: what is too much at one look, and isn't at the next, ends nobody.
func TestMomentsDont(t *testing.T) {
	x := newAudited(t)
	for range 5 {
		x.driver[10] = 5000
		if end := x.look(); end != nil {
			t.Errorf("%v are to end", end)
		}
		x.driver[10] = contexts
		if end := x.look(); end != nil {
			t.Errorf("%v are to end", end)
		}
	}
}

// TestGivenBackMeanwhile: what the driver said a moment ago isn't held against a process that has
// given it back since, or takes and gives all the time.
func TestGivenBackMeanwhile(t *testing.T) {
	x := newAudited(t)
	x.looks()
	for range 5 {
		x.a.Take(Window, 400)
		x.Mark(x.running)
		x.a.Give(Window, 400)
		x.a.Take(Arrays, 700)
		x.a.Give(Arrays, 700)
		x.driver[10] = contexts + 700
		if x.Look(x.running, x.driver); x.gpu.Taken() != 2*contexts {
			t.Fatalf("%d taken", x.gpu.Taken())
		}
	}
	x.driver[10] = contexts + 701
	if x.look(); x.gpu.Taken() != 2*contexts+701 {
		t.Errorf("%d taken where nothing was", x.gpu.Taken())
	}
}

// TestNewProcesses aren't looked at before their first mark.
func TestNewProcesses(t *testing.T) {
	x := newAudited(t)
	x.looks()
	x.Mark(x.running)
	x.driver[12] = 500
	x.running = append(x.running, Running{Entry: 2, PID: 12})
	if x.Look(x.running, x.driver); x.gpu.Taken() != 2*contexts {
		t.Errorf("%d taken", x.gpu.Taken())
	}
	if x.look(); x.gpu.Taken() != 2*contexts+500 {
		t.Errorf("%d taken after the mark", x.gpu.Taken())
	}
}

// TestLowerBound ends nobody for what he has, but for more.
func TestLowerBound(t *testing.T) {
	for _, before := range []uint64{0, 1000} {
		x := newAudited(t)
		x.SetBound(before)
		x.a.Take(Window, 800)
		x.driver[10] += 800
		x.looks()
		x.SetBound(200)
		if end := x.looks(); end != nil || x.b.Take(Window, 1) {
			t.Errorf("from %d: %v are to end", before, end)
		}
		x.driver[11] += 150
		if end := x.looks(); !slices.Equal(end, x.running[1:]) {
			t.Errorf("from %d: %v are to end of those that took more", before, end)
		}
	}
}

func TestOnlyWorkersOfGuestsEnd(t *testing.T) {
	x := newAudited(t)
	x.running = []Running{{Entry: Mover, PID: 12}, {Entry: Warm, PID: 13}}
	x.driver[12], x.driver[13] = 5000, 5000
	if end := x.looks(); end != nil {
		t.Errorf("%v are to end", end)
	}
}

// TestContextsAreMeasured where a process has nothing else.
func TestContextsAreMeasured(t *testing.T) {
	x := newAudited(t)
	warm := account(x.page, Warm+2)
	warm.Take(Contexts, contexts)
	x.running = append(x.running, Running{Entry: Warm + 2, PID: 12, Ready: true})
	x.driver[12] = 30
	if x.looks(); x.a.Context(contexts) != 30 {
		t.Errorf("a context takes %d", x.a.Context(contexts))
	}
	warm.Take(Window, 10)
	x.driver[12] = 40
	if x.looks(); x.a.Context(contexts) != 30 {
		t.Errorf("a context takes %d with other memory", x.a.Context(contexts))
	}
}

// TestContextsThatBeginAreNotMeasured: while one is made, the driver says too little.
func TestContextsThatBeginAreNotMeasured(t *testing.T) {
	x := newAudited(t)
	account(x.page, Warm+2).Take(Contexts, contexts)
	x.running = append(x.running, Running{Entry: Warm + 2, PID: 12})
	x.driver[12] = 30
	if x.looks(); x.a.Context(contexts) != contexts {
		t.Errorf("a context takes %d while one begins", x.a.Context(contexts))
	}
	x.Mark(x.running) // the driver is asked before it is ready
	x.running[2].Ready = true
	if x.Look(x.running, x.driver); x.a.Context(contexts) != contexts {
		t.Errorf("a context takes %d in the look in which it became ready", x.a.Context(contexts))
	}
	x.driver[12] = 90
	if x.look(); x.a.Context(contexts) != 90 {
		t.Errorf("a context takes %d", x.a.Context(contexts))
	}
}

// TestKilledBetweenTwoWrites: the sum is right again after two looks, with or without a driver that
// says anything.
func TestKilledBetweenTwoWrites(t *testing.T) {
	for _, usage := range []Usage{nil, driver{}} {
		x := newAudited(t)
		x.gpu.take(Window, 300)
		x.lookAt(usage)
		if x.lookAt(usage); x.gpu.Taken() != 100 {
			t.Errorf("%d taken", x.gpu.Taken())
		}
	}
}

// TestSettlingIsPatient: a sum that changes isn't touched.
func TestSettlingIsPatient(t *testing.T) {
	x := newAudited(t)
	for n := range uint64(5) {
		x.gpu.take(Window, 1) // to be in an entry soon
		if x.lookAt(nil); x.gpu.Taken() != 2*contexts+n+1 {
			t.Fatalf("%d taken", x.gpu.Taken())
		}
	}
}

// TestHostilePages looks at pages of noise: nothing breaks, and the bound holds afterwards.
func TestHostilePages(t *testing.T) {
	for seed := range uint64(200) {
		x := newAudited(t)
		random := rand.New(rand.NewPCG(seed, 3))
		for range 4 {
			for range 200 {
				at := random.IntN(pageBytes/8) * 8
				noise := []uint64{random.Uint64(), 0, math.MaxUint64}
				wordAt(x.page.mem, at).Store(noise[random.IntN(len(noise))])
			}
			x.a.Take(Kind(random.IntN(Kinds)), random.Uint64())
			x.a.Give(Kind(random.IntN(Kinds)), random.Uint64())
			x.a.Share()
			for _, g := range x.page.Known() {
				for entry := range Entries {
					h := g.Holding(entry)
					h.Map()
				}
			}
			x.look()
		}
		for entry := range Entries {
			x.End(entry)
		}
		x.looks()
		bound, id, taken := x.page.Bound(), x.gpu.ID(), x.gpu.Taken()
		if bound != 1000 || id != testGPU || taken > 2*contexts {
			t.Fatalf("seed %d: bound %d, id %d, %d taken", seed, bound, id, taken)
		}
	}
}

// TestLinesAreTheirOwners: what a process has written to the lines of others is put right when they
// take memory next, try to, or give some back, and the sum with it. Lines that nobody has are put
// right by Empty.
func TestLinesAreTheirOwners(t *testing.T) {
	for name, act := range map[string]func(b *Account){
		"takes": func(b *Account) { b.Take(Code, 1); b.Give(Code, 1) },
		"lacks": func(b *Account) { b.Take(Window, 2000) },
		"gives": func(b *Account) { b.Give(Staging, 7) },
		"moves": func(b *Account) { b.Move(Window, Mapped, 1); b.Move(Mapped, Window, 1) },
		"has":   func(b *Account) { b.Force(Code, 0) },
	} {
		x := newAudited(t)
		x.b.Take(Window, 100)
		const nobody = 7
		for k := range kinds {
			for _, entry := range []int{1, nobody} {
				x.gpu.entry(entry).kind(k).Store(uint64(k) * 1e12)
			}
		}
		x.gpu.entry(nobody).pid().Store(3)
		x.End(0) // who did it
		x.running = x.running[1:]
		x.Empty(nobody)
		if x.looks(); account(x.page, 2).Take(Window, 1) {
			t.Fatalf("%s: the lie isn't believed", name)
		}
		act(x.b)
		x.looks()
		x.looks()
		h := x.gpu.Holding(1)
		if x.gpu.Taken() != 150 || h.Took() != 150 || h.Kinds[Window] != 100 {
			t.Errorf("%s: %d taken, and %+v", name, x.gpu.Taken(), h)
		}
		if h := x.gpu.Holding(nobody); h.PID != 0 || h.Sum() != 0 {
			t.Errorf("%s: nobody has %+v", name, h)
		}
	}
}
