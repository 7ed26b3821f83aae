// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/checkpoint"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/keeper/keepertest"
	"github.com/paracuda/paracuda/gpubackend/resumption"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// TestPlaces: no two places are one, and all have a number with those who keep them.
func TestPlaces(t *testing.T) {
	if end > resumption.MaxOwn {
		t.Errorf("there are %d places, and numbers for %d", end, resumption.MaxOwn)
	}
	if Numbers >= State(0) || Listener(0) <= Pidfd(Pidfds-1) ||
		Listener(wire.MaxChannels-1) >= Reading(0) || Reading(MostReading-1) >= end {
		t.Error("places overlap")
	}
	for p := range end {
		channel, is := ChannelOf(p)
		if is != (p >= Worker(0) && p <= Worker(wire.MaxChannels-1)) || is && Worker(channel) != p {
			t.Errorf("place %d is of channel %d, %t", p, channel, is)
		}
	}
}

// TestNextProcessFindsWhatWasLeft: each process finds the facts and descriptors of the one before.
func TestNextProcessFindsWhatWasLeft(t *testing.T) {
	t.Parallel()
	s := keepertest.Store{}
	defer s.Close()
	r, before, err := New(s, nil)
	if err != nil || before != nil {
		t.Fatalf("the first process finds %+v, %v", before, err)
	}
	r.Note(func(f *Facts) { f.Generation, f.Sequence = 7, 3 })
	r.Changed("memory=1G")
	r.Changed("weight=5")
	r.Changed("memory=2G")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r.Keep(Door, int(null.Fd()))
	r.Keep(State(63), int(null.Fd()))
	r.Keep(Record(0), int(null.Fd()))
	r.Drop(Record(0))
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	r.Close()
	for range 2 {
		left := s.Given(t)
		left[uint32(end)], _ = unix.FcntlInt(null.Fd(), unix.F_DUPFD_CLOEXEC, 0) // nobody's
		r, before, err := New(s, left)
		if err != nil || before.Generation != 7 || before.Sequence != 3 ||
			!slices.Equal(before.Settings, []string{"memory=2G", "weight=5"}) {
			t.Fatalf("the next process finds %+v, %v", before, err)
		}
		fd, ok := r.Take(Door)
		if !ok {
			t.Fatal("the door is not left")
		}
		_ = unix.Close(fd)
		if _, ok := r.Take(Door); ok {
			t.Error("the door can be taken twice")
		}
		if _, ok := r.Take(Record(0)); ok {
			t.Error("what was dropped is left")
		}
		r.Close() // State(63) is taken by nobody
	}
}

// TestNothingChangesBeforeItServes: what another version has left stays as it was, until this one
// serves the VM.
func TestNothingChangesBeforeItServes(t *testing.T) {
	t.Parallel()
	s := keepertest.Store{}
	defer s.Close()
	file, err := checkpoint.Create(100)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	earlier := []byte("\x01\x00\x00\x00\x07\x00\x00\x00\x03\x00\x00\x00")
	if err := file.Write(earlier); err != nil {
		t.Fatal(err)
	}
	_ = s.KeepOwn(uint32(facts), file.FD())
	_ = s.KeepOwn(uint32(end), file.FD()) // for a later version
	isLeft := func(want bool) {
		t.Helper()
		left := s.Given(t)
		_, is := left[uint32(end)]
		kept, state, err := checkpoint.Open(left[uint32(facts)])
		if err != nil {
			t.Fatal(err)
		}
		_ = kept.Close()
		if is {
			handover.CloseFiles([]int{left[uint32(end)]})
		}
		if is != want || bytes.Equal(state, earlier) != want {
			t.Errorf("a place of another version's is kept: %t, facts % x, want it as it was: %t",
				is, state, want)
		}
	}
	r, _, err := New(s, s.Given(t))
	if err != nil {
		t.Fatal(err)
	}
	r.Changed("a=1")
	isLeft(true)
	r.Serves()
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	isLeft(false)
	r.Close()
	again, f, err := New(s, s.Given(t))
	if err != nil || f.Generation != 7 || !slices.Equal(f.Settings, []string{"a=1"}) {
		t.Errorf("the next process finds %+v, %v", f, err)
	}
	again.Close()
}

// TestBadFacts: facts that are cut short, malformed or out of bounds are refused.
func TestBadFacts(t *testing.T) {
	t.Parallel()
	good := string((&Facts{Generation: 1, Sequence: 2, Settings: []string{"a=1"}}).append(nil))
	for what, state := range map[string]string{
		"nothing": "", "short": good[:headBytes-1], "version 6": "\x06" + good[1:],
		"no file":         "\x03" + good[1:addressAt] + "\x00\x00\x00\x00" + good[headBytes:],
		"short of a file": good[:headBytes-fileBytes] + "\x05\x00\x00\x00" + good[headBytes:],
		"too long a file": good[:headBytes-fileBytes] + "\x01\x00\x01\x00" + good[headBytes:] +
			strings.Repeat("x", maxFile),
		"no version": "\x00" + good[1:], "short of version 1": "\x01" + good[1:11],
		"flags":          good[:12] + "\x04" + good[13:],
		"no end of line": good + "b=2", "too long": good + strings.Repeat("x", maxText) + "\n",
		"too many": good + strings.Repeat("a\n", maxSettings),
	} {
		s := keepertest.Store{}
		file, err := checkpoint.Create(headBytes + maxFile + 2*maxText)
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Write([]byte(state)); err != nil {
			t.Fatal(err)
		}
		_ = s.KeepOwn(uint32(facts), file.FD())
		_ = file.Close()
		if _, f, err := New(s, s.Given(t)); !errors.Is(err, ErrFacts) {
			t.Errorf("%s: %+v, %v", what, f, err)
		}
		s.Close()
	}
	s := keepertest.Store{}
	defer s.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	_ = s.KeepOwn(uint32(facts), int(null.Fd()))
	if _, _, err := New(s, s.Given(t)); !errors.Is(err, checkpoint.ErrDamaged) {
		t.Errorf("no checkpoint: %v", err)
	}
}

// TestWithoutAKeeper: nothing is kept, and nothing breaks.
func TestWithoutAKeeper(t *testing.T) {
	t.Parallel()
	var r *Remains
	r.Note(func(*Facts) { t.Error("a fact is noted") })
	r.Changed("a=1")
	r.Keep(Door, 0)
	r.Drop(Door)
	if _, ok := r.Take(Door); ok || r.Err() != nil {
		t.Error("something is kept")
	}
	r.Close()
}

// TestFactsOfEachVersion: facts are read as this program writes them, and as earlier ones did.
func TestFactsOfEachVersion(t *testing.T) {
	t.Parallel()
	all := Facts{Generation: 7, Sequence: 3, Suspended: true, Protocol: 9, Vouchers: 4096,
		Between: 6, InFile: []byte("=\n"), Settings: []string{"a=1"}}
	b := all.append(nil)
	fileAt := headBytes - fileBytes
	of := func(version byte, parts ...[]byte) []byte {
		return slices.Concat(append([][]byte{{version}, b[1:flagsAt]}, parts...)...)
	}
	for what, tt := range map[string]struct {
		facts []byte
		want  func(*Facts)
	}{
		"as written": {b, func(*Facts) {}},
		"version 4": {of(withPages, b[flagsAt:betweenAt], b[fileAt:]),
			func(f *Facts) { f.Between = 0 }},
		"version 4, no file": {
			of(withPages, b[flagsAt:betweenAt], make([]byte, 4), b[headBytes+2:]),
			func(f *Facts) { f.Between, f.InFile = 0, nil }},
		"version 3": {of(withFile, b[flagsAt:addressAt], b[fileAt:]),
			func(f *Facts) { f.Between, f.Vouchers = 0, 0 }},
		"version 2": {of(withoutFile, b[flagsAt:addressAt], b[headBytes+2:]),
			func(f *Facts) { f.Between, f.Vouchers, f.InFile = 0, 0, nil }},
		"version 1": {of(1, b[headBytes+2:]), func(f *Facts) {
			*f = Facts{Generation: 7, Sequence: 3, Settings: f.Settings}
		}},
	} {
		want, is := all, Facts{}
		tt.want(&want)
		if err := is.parse(tt.facts); err != nil || !reflect.DeepEqual(is, want) {
			t.Errorf("%s: %+v, %v, want %+v", what, is, err, want)
		}
	}
}
