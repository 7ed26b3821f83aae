// SPDX-License-Identifier: Apache-2.0

package holdings

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

func newPage(t *testing.T) *ledger.Page {
	t.Helper()
	page, err := ledger.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(page.Close)
	return page
}

// take has a process, by its entry, take memory of a GPU.
func take(t *testing.T, page *ledger.Page, entry int, gpu uint64, k ledger.Kind, bytes uint64) {
	t.Helper()
	p := ledger.NewProcess()
	p.Join(page, entry)
	if !p.Account(gpu).Take(k, bytes) {
		t.Fatalf("entry %d can't take %d bytes", entry, bytes)
	}
}

func kinds(of map[ledger.Kind]uint64) map[string]uint64 {
	var h ledger.Holding
	for k, n := range of {
		h.Kinds[k] = n
	}
	return h.Map()
}

// TestReport tells what a worker, the mover and warm workers have of two GPUs.
func TestReport(t *testing.T) {
	page := newPage(t)
	h := New(Config{Page: page})
	h.SetBound(1 << 30)
	h.Begin(3, 9)
	take(t, page, 3, 1, ledger.Window, 100)
	take(t, page, 3, 2, ledger.Code, 10)
	take(t, page, ledger.Mover, 1, ledger.Contexts, 30)
	take(t, page, ledger.Warm+1, 1, ledger.Contexts, 7)
	want := []GPU{
		{1 << 30, 137, kinds(map[ledger.Kind]uint64{ledger.Window: 100, ledger.Contexts: 37}),
			kinds(map[ledger.Kind]uint64{ledger.Contexts: 30}),
			kinds(map[ledger.Kind]uint64{ledger.Contexts: 7})},
		{1 << 30, 10, kinds(map[ledger.Kind]uint64{ledger.Code: 10}), kinds(nil), kinds(nil)},
	}
	if got := h.GPUs(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	for _, test := range []struct {
		name      string
		got, want map[string]uint64
	}{
		{"all", h.All(), kinds(map[ledger.Kind]uint64{ledger.Window: 100, ledger.Contexts: 37,
			ledger.Code: 10})},
		{"one", h.Of(3), kinds(map[ledger.Kind]uint64{ledger.Window: 100, ledger.Code: 10})},
		{"none", h.Of(4), kinds(nil)},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, test.got, test.want)
		}
	}
	if got := h.On([]uint64{2, 8, 1}); !slices.Equal(got, []uint64{10, 0, 137}) {
		t.Errorf("on each: %v, want 10, 0, 137", got)
	}
	if got := h.On(nil); got != nil {
		t.Errorf("on none: %v", got)
	}
	h.End(3)
	if got := h.GPUs(); got[0].Used != 37 || got[1].Used != 0 {
		t.Errorf("after its end: %+v", got)
	}
}

// TestWithoutPage: nobody counts, and nothing is passed on.
func TestWithoutPage(t *testing.T) {
	h := New(Config{})
	h.SetBound(5)
	h.Begin(1, 2)
	h.End(1)
	var m handover.Message
	if h.Counted() || h.GPUs() != nil || h.All() != nil || h.Of(1) != nil ||
		h.On([]uint64{1}) != nil ||
		len(h.Pass(&m, nil, 1)) != 0 || m.Files.Ledger {
		t.Errorf("%+v, %+v", h.GPUs(), m)
	}
}

func TestPass(t *testing.T) {
	page := newPage(t)
	var m handover.Message
	fds := New(Config{Page: page}).Pass(&m, []int{7}, 4)
	if !slices.Equal(fds, []int{7, page.FD()}) || m.Entry != 4 || !m.Files.Ledger {
		t.Errorf("%v, %+v", fds, m)
	}
}

// driver is a GPU's driver, which says the same number of bytes for each process.
type driver struct {
	bytes uint64
	err   error
	asked []int
}

func (d *driver) ask(pids []int) (ledger.Usage, error) {
	d.asked = pids
	if d.err != nil {
		return nil, d.err
	}
	return d, nil
}
func (d *driver) GPUs() []uint64                  { return []uint64{1} }
func (d *driver) Used(uint64, int) (uint64, bool) { return d.bytes, true }

// TestUsage asks about those that run, if there are any, and says once that there is no answer.
func TestUsage(t *testing.T) {
	var said bytes.Buffer
	log := logrus.New()
	log.SetOutput(&said)
	d := &driver{}
	h := New(Config{Page: newPage(t), Ask: d.ask, Log: logrus.NewEntry(log)})
	running := []ledger.Running{{Entry: 1, PID: 11}, {Entry: 2, PID: 12}}
	if u := h.Usage(nil); u != nil || d.asked != nil {
		t.Errorf("the driver was asked about nobody: %v", d.asked)
	}
	if u := h.Usage(running); u != ledger.Usage(d) || !slices.Equal(d.asked, []int{11, 12}) {
		t.Errorf("usage %v, asked about %v", u, d.asked)
	}
	d.err = errors.New("no")
	for range 3 {
		if u := h.Usage(running); u != nil {
			t.Errorf("usage %v of a driver that fails", u)
		}
	}
	if n := strings.Count(said.String(), "doesn't say"); n != 1 {
		t.Errorf("that was logged %d times", n)
	}
	h.Ask = nil
	if u := h.Usage(running); u != nil {
		t.Errorf("usage %v, and nobody can be asked", u)
	}
}

// TestLook: a process for which the driver has far more than the VM may have is to end, and one
// that is within the bound isn't.
func TestLook(t *testing.T) {
	for _, test := range []struct {
		bytes uint64
		ends  bool
	}{{1 << 20, false}, {1 << 30, true}} {
		page := newPage(t)
		d := &driver{bytes: test.bytes}
		h := New(Config{Page: page, Tolerance: 1 << 20, Ask: d.ask})
		h.SetBound(10 << 20)
		h.Begin(1, 9)
		take(t, page, 1, 1, ledger.Window, 4096)
		running := []ledger.Running{{Entry: 1, PID: 11}}
		var ended bool
		for range 3 {
			h.Mark(running)
			ended = ended || len(h.Look(running, h.Usage(running))) > 0
		}
		if ended != test.ends {
			t.Errorf("with %d bytes a process ends: %t", test.bytes, ended)
		}
	}
}
