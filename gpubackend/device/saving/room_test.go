// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
)

// TestTooLittleRoom: programs that can't be taken up because the VM may have less memory than they
// had say how much that was, whether they come from a file or a stream. Other errors stay as they
// are, and programs that have ended don't count.
func TestTooLittleRoom(t *testing.T) {
	const mib = 1 << 20
	v := newVM(t, "a", "b", "c")
	v.workers[0].had = map[uint64]uint64{7: 30 * mib, 8: 5 * mib}
	v.workers[1].had = map[uint64]uint64{7: 10*mib + 1, 8: 15 * mib}
	v.workers[2].had = map[uint64]uint64{7: math.MaxUint64, 9: 1}
	var stream bytes.Buffer
	if err := v.Copy(&stream); err != nil {
		t.Fatal(err)
	}
	f := v.mustSave()
	v.Forget(2)
	try := func(bound uint64, want string) {
		t.Helper()
		v.bound = bound
		_, err := v.Load(bytes.NewReader(f), silent)
		switch {
		case !errors.Is(err, errNo):
			t.Fatalf("bound %d: %v", bound, err)
		case want == "" && strings.Contains(err.Error(), "set memory"):
			t.Errorf("bound %d: %v", bound, err)
		case !strings.Contains(err.Error(), want):
			t.Errorf("bound %d: %v, want %q", bound, err, want)
		}
		if got := v.savedChannels(); len(got) != 2 {
			t.Fatalf("channels %v are saved", got)
		}
	}
	v.fails["b"] = errNo
	const needs = "the programs had 41943041 bytes of the GPU's memory, and the VM may have "
	try(20*mib, needs+"20971520: set memory=41M or more")
	try(40*mib, needs+"41943040: set memory=41M or more")
	try(41*mib, "")
	try(0, "")
	v.fails = map[string]error{}
	v.bound = mib // what they need now may fit
	if _, err := v.Load(bytes.NewReader(f), silent); err != nil {
		t.Fatal(err)
	}
	v.mustRun("0a", "1b")

	there := newVM(t)
	there.bound, there.fails = mib, map[string]error{"c": errNo}
	a, err := there.Arrive(&stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Take(); !errors.Is(err, errNo) || !strings.Contains(err.Error(), "set memory=") {
		t.Errorf("through a stream: %v", err)
	}
	there.mustRun()
}
