// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// TestDescriptorsOfADeviceThatIsAway: the file of a VM whose device will be away has what open
// descriptors stand for. That must be a state of package exports. A VM whose device stays has it in
// the device process.
func TestDescriptorsOfADeviceThatIsAway(t *testing.T) {
	open := exports.New(1 << 10)
	var maker exports.Worker
	open.Receive(&maker, &handover.Message{
		Object: &handover.Object{Kind: handover.ObjectPool, Number: 3, Token: 5},
	}, nil)
	if _, status := open.Claim(&maker, 3, 0); status != wire.StatusOk {
		t.Fatal(status)
	}
	state := open.State()
	v := newVM(t, "a")
	v.config.Open = func() []byte { return state }
	for _, x := range []struct {
		known string
		want  []byte
	}{{"", nil}, {"key", state}} {
		v.known = x.known
		b := v.mustSave()
		f, err := OpenFile(bytes.NewReader(b), "soft", "1")
		if err != nil || !bytes.Equal(f.Descriptors, x.want) {
			t.Fatalf("known as %q: %x, %v", x.known, f.Descriptors, err)
		}
		if _, err := v.Load(bytes.NewReader(b), silent); err != nil {
			t.Fatal(err)
		}
	}
	state = state[:len(state)-1]
	_, err := OpenFile(bytes.NewReader(v.mustSave()), "soft", "1")
	if !errors.Is(err, exports.ErrState) {
		t.Errorf("not a state: %v", err)
	}
	if exports.MostState > savedvm.MaxDescriptors {
		t.Error("a file can't have all descriptors that there may be")
	}
}

// TestDescriptorsOfNobody: a VM whose device is to be away isn't saved if descriptors are open of
// what no program has any more, also if one has ended while the file was written.
func TestDescriptorsOfNobody(t *testing.T) {
	v := newVM(t, "a")
	v.known = "key"
	asked, lone := 0, 2
	v.config.Descriptors = func() int {
		if asked++; asked < lone {
			return 0
		}
		return 1
	}
	for ; lone > 0; lone-- { // when all is written, and before
		asked = 0
		mustNot := func() error { t.Error("kept"); return nil }
		_, err := v.Save(io.Discard, false, nil, mustNot, silent)
		if !errors.Is(err, errDescriptors) || asked != lone {
			t.Errorf("%v, asked %d times", err, asked)
		}
	}
	v.mustRun("0a")
}
