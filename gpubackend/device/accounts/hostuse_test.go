// SPDX-License-Identifier: Apache-2.0

package accounts

import (
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/paracuda/paracuda/gpubackend/hostuse"
)

// TestOver: those that exceed what one may have end, or else the largest, if all together have too
// much.
func TestOver(t *testing.T) {
	const mib = 1 << 20
	const excessive = " of the host's memory, more than 250 (--set host-memory)"
	a, b := newProcess(1), newProcess(2)
	h := HostBounds{Process: 100 * mib, VM: 400 * mib, Beside: 50 * mib}
	for name, test := range map[string]struct {
		has  map[Process]ofHost
		want map[Process]string
	}{
		"nobody":  {nil, nil},
		"as much": {map[Process]ofHost{a: {250 * mib, 250 * mib}, b: {250 * mib, 0}}, nil},
		"one too much": {map[Process]ofHost{a: {251 * mib, 0}, b: {249 * mib, 0}},
			map[Process]string{a: "251 MiB" + excessive}},
		"shared": {map[Process]ofHost{a: {0, 300 * mib}, b: {1, 0}},
			map[Process]string{a: "300 MiB" + excessive}},
		"both": {map[Process]ofHost{a: {math.MaxUint64, 0}, b: {0, math.MaxUint64}},
			map[Process]string{a: "host-memory", b: "host-memory"}},
	} {
		ends := h.over(test.has)
		if len(ends) != len(test.want) {
			t.Errorf("%s: %v end, want %v", name, ends, test.want)
		}
		for p, want := range test.want {
			if e, is := ends[p]; !is || !strings.Contains(e.String(), want) {
				t.Errorf("%s: %v, want %s", name, e, want)
			}
		}
	}
	h.VM = 300 * mib
	both := map[Process]ofHost{a: {199 * mib, 0}, b: {202 * mib, 0}}
	ends := h.over(both)
	if e := ends[b].String(); len(ends) != 1 ||
		e != "401 MiB of the host's memory, more than 400 (--set vm-host-memory)" {
		t.Errorf("together: %v", ends)
	}
	h = HostBounds{Process: math.MaxUint64, VM: math.MaxUint64, Beside: 1}
	if ends := h.over(both); len(ends) != 0 {
		t.Errorf("without bounds: %v", ends)
	}
}

// kernel says what processes have.
type kernel struct {
	private, looks atomic.Uint64
	err            error
}

func (k *kernel) weigh(pids []int) (map[int]hostuse.Bytes, error) {
	k.looks.Add(1)
	all := map[int]hostuse.Bytes{}
	for _, pid := range pids {
		all[pid] = hostuse.Bytes{Private: k.private.Load()}
	}
	return all, k.err
}

// looked waits for more looks.
func (r *rig) looked(t *testing.T, k *kernel) {
	t.Helper()
	before := k.looks.Load()
	r.eventually(t, "it is weighed", func() bool { return k.looks.Load() > before+3 })
}

// TestHeavy: a worker ends that has too much at two looks, without what was moved out to it, and as
// long as that is known.
func TestHeavy(t *testing.T) {
	r, k := newRig(t), &kernel{}
	var moved atomic.Uint64
	var unknown atomic.Bool
	r.config.Weigh = k.weigh
	r.config.Holding = func(Process) Holding {
		return Holding{Moved: moved.Load(), Known: !unknown.Load()}
	}
	r.SetHost(HostBounds{Process: 10, VM: 1000, Beside: 5})
	p := newProcess(7)
	r.Began(p)
	defer r.Ended(p)
	k.private.Store(25)
	r.looked(t, k)
	moved.Store(1000)
	k.private.Store(1025)
	r.looked(t, k)
	unknown.Store(true)
	moved.Store(0)
	r.looked(t, k)
	if len(p.heavy) != 0 {
		t.Fatalf("it ends: %s", <-p.heavy)
	}
	unknown.Store(false)
	select {
	case <-p.heavy:
	case <-time.After(soon):
		t.Error("it lives")
	}
}

// TestUnweighed: that nobody can see what workers have is said once.
func TestUnweighed(t *testing.T) {
	r, k := newRig(t), &kernel{err: errors.New("no /proc")}
	log, said := logtest.NewNullLogger()
	r.config.Weigh, r.config.Log = k.weigh, logrus.NewEntry(log)
	p := newProcess(7)
	r.Began(p)
	r.looked(t, k)
	r.Ended(p)
	r.eventually(t, "the audit ends", func() bool { return !r.audited() })
	if all := said.AllEntries(); len(all) != 1 || all[0].Level != logrus.WarnLevel {
		t.Errorf("the log has %v", all)
	}
}
