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
	const excessive = " of the host's memory, more than "
	a, b := newProcess(1), newProcess(2)
	most := HostBounds{Process: 100 * mib, VM: 400 * mib, Files: 1000 * mib, Beside: 50 * mib}
	less, boundless := most, HostBounds{Process: math.MaxUint64, VM: math.MaxUint64,
		Files: math.MaxUint64, Beside: 1}
	less.VM = 300 * mib
	for name, test := range map[string]struct {
		h    HostBounds
		a, b ofHost
		left uint64
		want map[Process]string
	}{
		"as much": {most, ofHost{250 * mib, 250 * mib, 1100 * mib}, ofHost{250 * mib, 0, 0}, 0,
			nil},
		"one too much": {most, ofHost{private: 251 * mib}, ofHost{private: 249 * mib}, 0,
			map[Process]string{a: "251 MiB" + excessive + "250 (--set host-memory)"}},
		"shared": {most, ofHost{shared: 300 * mib}, ofHost{private: 1}, 0,
			map[Process]string{a: "300 MiB" + excessive + "250 (--set host-memory)"}},
		"both": {most, ofHost{private: math.MaxUint64}, ofHost{shared: math.MaxUint64}, 0,
			map[Process]string{a: "(--set host-memory)", b: "(--set host-memory)"}},
		"together": {less, ofHost{private: 199 * mib}, ofHost{private: 202 * mib}, 0,
			map[Process]string{b: "401 MiB" + excessive + "400 (--set vm-host-memory)"}},
		"files": {most, ofHost{private: 9, files: 400 * mib}, ofHost{files: 701 * mib}, 0,
			map[Process]string{b: "1101 MiB" + excessive + "1100 (--set soft-memory)"}},
		"files of those that are gone": {most, ofHost{files: mib}, ofHost{}, 1100 * mib,
			map[Process]string{a: "1101 MiB" + excessive + "1100 (--set soft-memory)"}},
		"endless files": {most, ofHost{files: math.MaxUint64}, ofHost{}, math.MaxUint64,
			map[Process]string{a: "(--set soft-memory)"}},
		"without bounds": {boundless, ofHost{private: 1 << 50, files: 1 << 50}, ofHost{}, 1 << 50,
			nil},
	} {
		ends := test.h.over(map[Process]ofHost{a: test.a, b: test.b}, test.left)
		if len(ends) != len(test.want) {
			t.Errorf("%s: %v end, want %v", name, ends, test.want)
		}
		for p, want := range test.want {
			if e, is := ends[p]; !is || !strings.Contains(e.String(), want) {
				t.Errorf("%s: %v, want %s", name, e, want)
			}
		}
	}
	if ends := most.over(nil, math.MaxUint64); len(ends) != 0 {
		t.Errorf("nobody: %v", ends)
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
