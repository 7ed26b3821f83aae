// SPDX-License-Identifier: Apache-2.0

package virtqueue

import (
	"testing"

	vt "github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// The formula agrees with counting, for every distance between the three indices that a queue of
// 64 can have, around several places where they wrap.
func TestNeedEventAgreesWithCounting(t *testing.T) {
	t.Parallel()
	for _, base := range []uint16{0, 1, 100, 32700, 32768, 65480, 65535} {
		for moved := range uint16(65) {
			for e := -80; e < 80; e++ {
				event := base + uint16(e)
				got := needEvent(event, base+moved, base)
				if want := vt.Passed(event, base, base+moved); got != want {
					t.Fatalf("needEvent(%d, %d, %d) = %v, want %v", event, base+moved, base, got,
						want)
				}
			}
		}
	}
}

func FuzzEventIdx(f *testing.F) {
	f.Add(uint16(0), uint16(0), uint16(1))
	f.Add(uint16(65535), uint16(65530), uint16(3))
	f.Add(uint16(5), uint16(5), uint16(0))
	f.Fuzz(func(t *testing.T, event, old, new uint16) {
		if got, want := needEvent(event, new, old), vt.Passed(event, old, new); got != want {
			t.Fatalf("needEvent(%d, %d, %d) = %v, want %v", event, new, old, got, want)
		}
	})
}

// newEventRig makes a queue of a size, both indices at a start value.
func newEventRig(tb testing.TB, size, start uint16, eventIdx bool) (*vt.Driver, *Queue) {
	tb.Helper()
	g := vt.NewGuest(tb, vt.Span{Addr: 0x10000, Size: 1 << 20})
	d := vt.NewDriver(g, size, eventIdx)
	d.StartAt(start)
	q, err := New(g.Mem, Config{
		Size: size, Desc: d.Desc, Avail: d.Avail, Used: d.Used, Base: start, EventIdx: eventIdx,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(q.Close)
	return d, q
}

// cycle sends one request through.
func cycle(tb testing.TB, d *vt.Driver, q *Queue) {
	tb.Helper()
	if _, err := d.Add(vt.Desc{}); err != nil {
		tb.Fatal(err)
	}
	c, ok, err := q.Pop()
	if !ok || err != nil {
		tb.Fatalf("Pop = %v, %v", ok, err)
	}
	if err := q.Push(c.Head(), 0); err != nil {
		tb.Fatal(err)
	}
	if _, _, ok := d.Reap(); !ok {
		tb.Fatal("nothing to reap")
	}
}

func TestNotifications(t *testing.T) {
	t.Parallel()
	for _, start := range []uint16{0, 65533} {
		d, q := newEventRig(t, 8, start, true)
		if q.NeedsNotify() {
			t.Error("NeedsNotify before any Push")
		}
		// The driver waits for the third completion from here.
		d.SetUsedEvent(start + 2)
		for i, want := range []bool{false, false, true, false} {
			cycle(t, d, q)
			if got := q.NeedsNotify(); got != want {
				t.Errorf("start %d: after completion %d: NeedsNotify = %v, want %v", start, i+1,
					got, want)
			}
		}
		// A batch that steps over the event counts too, and is told once.
		d.SetUsedEvent(start + 5)
		for range 3 {
			cycle(t, d, q)
		}
		if !q.NeedsNotify() || q.NeedsNotify() {
			t.Errorf("start %d: a batch over the event isn't told once", start)
		}
	}
}

func TestNotificationFlag(t *testing.T) {
	t.Parallel()
	d, q := newEventRig(t, 8, 0, false)
	d.SetAvailFlags(vt.NoInterrupt)
	cycle(t, d, q)
	if q.NeedsNotify() {
		t.Error("the driver asked for no interrupt and gets one")
	}
	d.SetAvailFlags(0)
	cycle(t, d, q)
	if !q.NeedsNotify() {
		t.Error("the driver gets no interrupt")
	}
}

// A polling device gets no kick, however long it polls; one that is about to sleep gets the next.
func TestKicks(t *testing.T) {
	t.Parallel()
	for _, eventIdx := range []bool{false, true} {
		d, q := newEventRig(t, 8, 65000, eventIdx)
		if err := q.DisableKick(); err != nil {
			t.Fatal(err)
		}
		for i := range 70000 {
			if i%7 == 0 && d.NeedsKick() {
				t.Fatalf("event idx %v: kick %d of a device that polls", eventIdx, i)
			}
			cycle(t, d, q)
		}
		d.NeedsKick()
		if more, err := q.EnableKick(); more || err != nil {
			t.Fatalf("EnableKick of an empty queue = %v, %v", more, err)
		}
		if _, err := d.Add(vt.Desc{}); err != nil {
			t.Fatal(err)
		}
		if !d.NeedsKick() {
			t.Errorf("event idx %v: no kick for a device that sleeps", eventIdx)
		}
		if more, err := q.EnableKick(); !more || err != nil {
			t.Errorf("EnableKick with a chain waiting = %v, %v", more, err)
		}
	}
}

// Neither side ever sleeps through the other: a driver and a device in two goroutines, each of
// which waits whenever the protocol lets it.
func TestNoLostWakeup(t *testing.T) {
	t.Parallel()
	for _, eventIdx := range []bool{false, true} {
		n := 20000
		if testing.Short() {
			n = 2000
		}
		d, q := newEventRig(t, 4, 0, eventIdx)
		kick, call := make(chan struct{}, 1), make(chan struct{}, 1)
		signal := func(c chan struct{}) {
			select {
			case c <- struct{}{}:
			default:
			}
		}
		done := make(chan error, 1)
		go func() {
			for served := 0; served < n; {
				c, ok, err := q.Pop()
				if err != nil {
					done <- err
					return
				}
				if ok {
					served++
					if err := q.Push(c.Head(), 0); err != nil {
						done <- err
						return
					}
					if q.NeedsNotify() {
						signal(call)
					}
					if served%5 == 0 {
						_ = q.DisableKick()
					}
					continue
				}
				if more, _ := q.EnableKick(); !more {
					<-kick
				}
			}
			done <- nil
		}()
		for sent, got := 0, 0; got < n; {
			for sent < n {
				if _, err := d.Add(vt.Desc{}); err != nil {
					break
				}
				sent++
			}
			if d.NeedsKick() {
				signal(kick)
			}
			if _, _, ok := d.Reap(); ok {
				got++
				continue
			}
			d.SetUsedEvent(uint16(got))
			d.Fence()
			if d.UsedIdx() == uint16(got) {
				<-call
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}
