// SPDX-License-Identifier: Apache-2.0

package infile

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/device/takeover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// away is the file of a VM that was away, with programs in the channels 1 and 3.
func away() *saving.File {
	return &saving.File{Sum: 7, VM: "key", Programs: filed().file.Programs,
		Descriptors: []byte("open")}
}

// TestBack: a VM whose driver has the key is the one in the file. It is resumed by hand, or by
// itself if the device was given the file at its start; in either case it is back once.
func TestBack(t *testing.T) {
	want := []string{"empty", "take file", "take up 7", "reclaim 2", "describe open"}
	for _, itself := range []bool{false, true} {
		f := &fake{offered: []int{1, 2, 3}}
		from := away()
		v := f.vm(nil)
		if itself {
			v = f.vm(from)
		} else if err := v.Expect(from); err != nil {
			t.Fatal(err)
		}
		v.Unused() // another driver than that of the file may come first
		if s := v.Back("other"); s != wire.StatusNoObject || f.did != nil {
			t.Fatalf("status %d, %q", s, f.did)
		}
		if s := v.Back("key"); s != wire.StatusOk {
			t.Fatalf("status %d, the log says %s", s, &f.log)
		}
		if itself {
			want = append(want, "load")
		}
		if !slices.Equal(f.did, want) {
			t.Errorf("%q, want %q", f.did, want)
		}
		for _, p := range f.file.Programs {
			if !p.Anew {
				t.Errorf("%+v", p)
			}
		}
		f.file, f.status.Saved = nil, false
		if s := v.Back("key"); s != wire.StatusNoObject {
			t.Errorf("status %d of one that is back", s)
		}
	}
	if err := (&fake{}).vm(nil).Expect(&saving.File{Sum: 7}); !errors.Is(err, errUnknown) {
		t.Errorf("a file of a VM that wasn't away: %v", err)
	}
}

// TestBackWithoutPrograms: programs that have ended meanwhile aren't waited for.
func TestBackWithoutPrograms(t *testing.T) {
	f := &fake{offered: []int{3}}
	v := f.vm(away())
	if s := v.Back("key"); s != wire.StatusOk || len(f.file.Programs) != 1 ||
		f.file.Programs[0].Channel != 3 || f.file.Programs[0].Number != 1 {
		t.Fatalf("status %d, %+v", s, f.file)
	}
	f = &fake{}
	if s := f.vm(away()).Back("key"); s != wire.StatusOk ||
		!slices.Equal(f.did, []string{"empty", "describe open"}) {
		t.Fatalf("status %d, %q", s, f.did)
	}
}

// TestNotBack: a VM that has programs, or is suspended, isn't one that is back.
func TestNotBack(t *testing.T) {
	for name, f := range map[string]*fake{
		"used": {used: true}, "in a file": {file: filed().file},
		"suspended": {fails: errors.New("it is suspended"), offered: []int{1}},
	} {
		if s := f.vm(away()).Back("key"); s != wire.StatusBusy || slices.Contains(f.did, "load") {
			t.Errorf("%s: status %d, %q", name, s, f.did)
		}
	}
}

// noneLeft is what a process left that had no workers.
var noneLeft takeover.Left

// TestGoesStill: the next process has the driver told again that the device is going to be away.
func TestGoesStill(t *testing.T) {
	f := filed()
	f.file.Away = true
	known := f.vm(nil).Known()
	next := &fake{}
	next.vm(nil).TakeOver(known, &noneLeft, nil)
	if got := strings.Join(next.did, ", "); got != "take file, take up 7, goes" {
		t.Errorf("%s", got)
	}
}
