// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// running are the settings of a VM, and what was done with them.
type running struct {
	*VM
	changes int
	before  *Now // what held before the last change
	now     *Now
	kept    []string
}

func newRunning(gpu string, sequence uint32, sharer Sharer) *running {
	r := &running{}
	r.VM = NewVM(Default(), Config{GPU: gpu, Sharer: sharer, Sequence: sequence,
		Changed: func(before, now *Now) {
			r.changes++
			r.before, r.now = before, now
		},
		Kept: func(text string) { r.kept = append(r.kept, text) },
	})
	return r
}

// TestChangesAreTold with what held before, and what is refused changes nothing.
func TestChangesAreTold(t *testing.T) {
	r := newRunning("soft", 0, nil)
	first := r.Now()
	for _, text := range []string{
		"batch-commands=0", "x=1", "x", "channels=3", "arena=2M", "allow-pageable-access=on",
		"memory-guarantee=3G",
	} {
		if err := r.Set(text); !errors.Is(err, ErrSetting) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if r.Now() != first || r.changes != 0 || r.kept != nil {
		t.Fatalf("%d changes, %q are kept", r.changes, r.kept)
	}
	copied := *first
	if err := r.Set("batch-commands=7"); err != nil {
		t.Fatal(err)
	}
	switch now := r.Now(); {
	case r.changes != 1 || r.before != first || r.now != now:
		t.Errorf("%d changes", r.changes)
	case *first != copied:
		t.Error("what held before was changed")
	case now.Space.BatchCommands != 7 || now.Policy.BatchCommands != 7:
		t.Errorf("%+v holds", now)
	case now.Space.Sequence != first.Space.Sequence+1 || r.Told() != &now.Space:
		t.Errorf("the guest is told %+v", r.Told())
	}
	if want := []string{"batch-commands=7"}; !slices.Equal(r.kept, want) {
		t.Errorf("%q are kept", r.kept)
	}
}

// TestSequenceFollows what a driver has, so that it asks again, and nothing else changes.
func TestSequenceFollows(t *testing.T) {
	r := newRunning("soft", 8, nil)
	if n := r.Told().Sequence; n != 9 {
		t.Fatalf("sequence %d", n)
	}
	r.Follow(20)
	if n := r.Told().Sequence; n != 21 || r.changes != 1 || r.now.Settings != r.before.Settings {
		t.Fatalf("sequence %d, %d changes", n, r.changes)
	}
	if n := newRunning("soft", 0, nil).Told().Sequence; n != 0 {
		t.Fatalf("sequence %d of a VM that was told nothing", n)
	}
}

// TestGoesAway: the guest is told whether its device will be away, whatever else changes.
func TestGoesAway(t *testing.T) {
	r := newRunning("soft", 0, nil)
	flags := r.Told().Flags
	for i, goes := range []bool{true, true, false, true} {
		r.GoesAway(goes)
		if err := r.Set(fmt.Sprintf("batch-commands=%d", 2+i)); err != nil {
			t.Fatal(err)
		}
		want := flags
		if goes {
			want |= wire.ConfigFlagGoesAway
		}
		if s := r.Told(); s.Flags != want || s.Sequence != uint32(2*i+2) {
			t.Errorf("%t: the guest is told %+v", goes, s)
		}
	}
}

// TestOperatorsBoundsAreNotTheOwners: they aren't kept for the next process, which is told them
// anew.
func TestOperatorsBoundsAreNotTheOwners(t *testing.T) {
	r := newRunning("cuda", 0, &fakeArbiter{})
	if err := r.Bound(map[string]string{"memory": "1G"}); err != nil {
		t.Fatal(err)
	}
	if r.MemoryBound() != 1<<30 || r.changes != 1 || r.kept != nil {
		t.Errorf("bound %d, %q are kept", r.MemoryBound(), r.kept)
	}
}

// TestWarmWorkersOfADefault: as many as suit the GPU unless a number is set, and no more than there
// are channels.
func TestWarmWorkersOfADefault(t *testing.T) {
	for _, test := range []struct {
		gpu, set, told string
		want           int
	}{
		{"cuda", "", "1", warmCUDA}, {"soft", "", "0", warmSoft},
		{"soft", "warm-workers=3", "3", 3}, {"soft", "warm-workers=64", "16", 16},
	} {
		r := newRunning(test.gpu, 0, nil)
		if test.set != "" {
			if err := r.Set(test.set); err != nil {
				t.Fatal(err)
			}
		}
		if n := r.WarmTarget(); n != test.want || r.Values()["warm-workers"] != test.told {
			t.Errorf("%+v: %d, told %s", test, n, r.Values()["warm-workers"])
		}
	}
}

// TestChangesDoNotMix: of many changes at a time, each is applied to what the one before left.
func TestChangesDoNotMix(t *testing.T) {
	r := newRunning("soft", 0, nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 20 {
				if err := r.set(fmt.Sprintf("batch-commands=%d", 1+i*20+n)); err != nil {
					t.Error(err)
				}
				if now := r.Now(); now.Space.BatchCommands != now.Policy.BatchCommands {
					t.Error("a half of a change")
				}
			}
		})
	}
	all.Wait()
	if n := r.Told().Sequence; n != 160 || r.changes != 160 {
		t.Fatalf("sequence %d after %d changes", n, r.changes)
	}
}
