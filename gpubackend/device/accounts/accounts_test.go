// SPDX-License-Identifier: Apache-2.0

package accounts

import (
	"io"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

const (
	soon      = time.Minute
	gpu       = 1 << 20 // its number
	tolerance = 1 << 20
)

// process is a worker.
type process struct {
	pid     int
	tooMuch chan struct{}
	heavy   chan string
}

func newProcess(pid int) *process {
	return &process{pid, make(chan struct{}, 1000), make(chan string, 1000)}
}

func (p *process) PID() (int, bool) { return p.pid, p.pid != 0 }
func (p *process) TooMuch()         { p.tooMuch <- struct{}{} }

func (p *process) TooHeavy(why string) {
	select {
	case p.heavy <- why:
	default:
	}
}

// driver says what one process has.
type driver struct {
	pid   int
	bytes atomic.Uint64
	asked atomic.Int32
}

func (d *driver) GPUs() []uint64 { return []uint64{gpu} }

func (d *driver) Used(_ uint64, pid int) (uint64, bool) { return d.bytes.Load(), pid == d.pid }

func (d *driver) ask([]int) (ledger.Usage, error) {
	d.asked.Add(1)
	return d, nil
}

// rig is a VM's accounts, and what they need.
type rig struct {
	*Accounts
	page   *ledger.Page
	gate   *gate.Page
	driver driver
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{}
	var err error
	if r.page, err = ledger.New(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.page.Close)
	if r.gate, err = gate.New(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.gate.Close)
	log := logrus.New()
	log.SetOutput(io.Discard)
	r.Accounts = New(Config{Page: r.page, Gate: r.gate, Tolerance: tolerance, Ask: r.driver.ask,
		Pause: time.Millisecond, GPUTime: func() uint64 { return 0 }, Log: logrus.NewEntry(log),
		Guard: func(_ string, f func()) bool {
			f()
			return true
		}})
	t.Cleanup(func() { r.eventually(t, "the audit ends", func() bool { return !r.audited() }) })
	return r
}

func (r *rig) audited() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.auditing
}

func (r *rig) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// serve has a process serve a guest process.
func (r *rig) serve(t *testing.T, p *process) int {
	t.Helper()
	entry, err := r.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	r.Serve(p, entry, 9)
	return entry
}

// TestPlaces: a process that is started ahead of use counts apart until it serves.
func TestPlaces(t *testing.T) {
	r := newRig(t)
	p := newProcess(7)
	if r.Runs(p) || r.Of(p) != nil {
		t.Error("one that hasn't begun counts")
	}
	r.Began(p)
	if _, counts := r.Entry(p); counts || !r.Runs(p) || r.Serving() {
		t.Error("one that serves nobody counts")
	}
	if err := r.Ahead(p); err != nil {
		t.Fatal(err)
	}
	var m handover.Message
	if fds := r.Pass(&m, nil, p); len(fds) != 1 || m.Entry != ledger.Warm || m.Files.Gate {
		t.Errorf("%d files, entry %d", len(fds), m.Entry)
	}
	entry := r.serve(t, p)
	m = handover.Message{}
	if fds := r.Pass(&m, nil, p); len(fds) != 4 || m.Entry != entry || !m.Files.Gate ||
		!m.Files.Ledger || !r.Serving() {
		t.Errorf("%d files, entry %d", len(fds), m.Entry)
	}
	r.Ended(p)
	r.Ended(p)
	if r.Runs(p) || r.Serving() || r.ahead != 0 {
		t.Error("one that has ended counts")
	}
	if r.serve(t, p); r.Serving() || r.Ahead(p) != nil || r.ahead != 0 {
		t.Error("one that has ended got an entry")
	}
	if entry, _ := r.Reserve(); entry != 0 || !r.Serving() {
		t.Errorf("entry %d", entry)
	}
	r.Release(0)
	m = handover.Message{}
	if fds := r.PassMover(&m, nil); len(fds) != 1 || m.Entry != ledger.Mover {
		t.Errorf("the mover: %d files, entry %d", len(fds), m.Entry)
	}
	r.MoverEnded()
}

// TestLinesOfNobody: what a process wrote to lines of the page that nobody has is gone when it has
// ended, and what others have is there still.
func TestLinesOfNobody(t *testing.T) {
	r := newRig(t)
	hostile, honest, warm := newProcess(7), newProcess(8), newProcess(9)
	for _, p := range []*process{hostile, honest, warm} {
		r.Began(p)
	}
	r.serve(t, hostile)
	served := r.serve(t, honest)
	if err := r.Ahead(warm); err != nil {
		t.Fatal(err)
	}
	gpu := ledger.ID([16]byte{1})
	take := func(entry int) {
		p := ledger.NewProcess()
		p.Join(r.page, entry)
		if !p.Account(gpu).Take(ledger.Window, 100) {
			t.Fatalf("entry %d takes nothing", entry)
		}
	}
	has := []int{served, ledger.Warm, ledger.Mover}
	for entry := range ledger.Entries {
		take(entry)
	}
	r.Ended(hostile)
	for entry := range ledger.Entries {
		want := uint64(0)
		if slices.Contains(has, entry) {
			want = 100
		}
		if h := r.page.GPU(gpu).Holding(entry); h.Took() != want {
			t.Errorf("entry %d: %d bytes, want %d", entry, h.Took(), want)
		}
	}
	r.Ended(honest)
	r.Ended(warm)
	r.MoverEnded()
	if n := r.page.GPU(gpu).Taken(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// TestContextsAreMeasured in a process that was started ahead of use, once it is ready, and no more
// when it serves.
func TestContextsAreMeasured(t *testing.T) {
	r := newRig(t)
	r.driver.pid = 7 // set before it is asked
	warm := newProcess(7)
	r.Ready(warm) // one that has ended by then
	r.Began(warm)
	defer r.Ended(warm)
	if err := r.Ahead(warm); err != nil {
		t.Fatal(err)
	}
	counted := ledger.NewProcess()
	counted.Join(r.page, ledger.Warm)
	if !counted.Account(gpu).Take(ledger.Contexts, 100) {
		t.Fatal("it takes nothing")
	}
	looks := func(driver uint64) uint64 {
		r.driver.bytes.Store(driver)
		asked := r.driver.asked.Load()
		r.eventually(t, "it is asked again", func() bool { return r.driver.asked.Load() > asked+3 })
		return r.page.GPU(gpu).Context()
	}
	if n := looks(30); n != 0 {
		t.Errorf("while it begins, a context takes %d", n)
	}
	if r.Ready(warm); looks(90) != 90 {
		t.Errorf("a context takes %d", r.page.GPU(gpu).Context())
	}
	if r.serve(t, warm); looks(50) != 90 {
		t.Errorf("of a process that serves, a context takes %d", r.page.GPU(gpu).Context())
	}
}

// TestAudit: the one is told to end for which the driver has too much, and nobody else.
func TestAudit(t *testing.T) {
	r := newRig(t)
	r.driver.pid = 7 // set before it is asked
	liar, honest, unknown := newProcess(7), newProcess(8), newProcess(0)
	r.SetBounds(10<<20, 0)
	for _, p := range []*process{liar, honest, unknown} {
		r.Began(p)
		r.serve(t, p)
	}
	r.driver.bytes.Store(10<<20 + tolerance)
	asked := r.driver.asked.Load()
	r.eventually(t, "it is asked again", func() bool { return r.driver.asked.Load() > asked+5 })
	if len(liar.tooMuch) != 0 {
		t.Error("within the tolerance is too much")
	}
	r.driver.bytes.Add(1)
	select {
	case <-liar.tooMuch:
	case <-time.After(soon):
		t.Error("the liar lives")
	}
	if len(honest.tooMuch)+len(unknown.tooMuch) != 0 {
		t.Error("another one is to end")
	}
	if all := r.Sum(); all != 10<<20+tolerance+1 {
		t.Errorf("the VM has %d bytes", all)
	}
	for _, p := range []*process{liar, honest, unknown} {
		r.Ended(p)
	}
	r.eventually(t, "the audit ends", func() bool { return !r.audited() })
	if percent, known := r.page.Busy(); !known || percent != 0 || r.Sum() != 0 {
		t.Errorf("nobody has %d bytes, and keeps the GPU busy: %d %%", r.Sum(), percent)
	}
	r.Began(honest)
	if !r.audited() {
		t.Error("the next process isn't looked at")
	}
	r.Ended(honest)
}
