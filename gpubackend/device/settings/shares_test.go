// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
)

// fakeArbiter takes wishes, or refuses them.
type fakeArbiter struct {
	refuses error
	wishes  []map[string]string
	joined  bool
}

func (f *fakeArbiter) Set(wishes map[string]string) error {
	f.wishes = append(f.wishes, wishes)
	return f.refuses
}
func (f *fakeArbiter) Stay(*link.Place) {}

func (f *fakeArbiter) Joined() bool { return f.joined }
func (f *fakeArbiter) VM() *link.VM { return &link.VM{} }

// owner is settings, and the part of them in which an arbiter has a say.
type owner struct {
	*arbitrated
	settings Settings
	refuses  error // of the device
}

func newOwner(sharer Sharer) *owner {
	o := &owner{settings: Default()}
	o.arbitrated = newShares(sharer, func(text string) error {
		if o.refuses != nil {
			return o.refuses
		}
		return o.settings.Set(text)
	}, func() Settings { return o.settings })
	return o
}

// mustHave fails the test unless a setting has a value.
func (o *owner) mustHave(t *testing.T, key, want string) {
	t.Helper()
	if got := o.settings.Values()[key]; got != want {
		t.Fatalf("%s=%s, want %s", key, got, want)
	}
}

// TestSharesAreAskedFor: what concerns other VMs is set only if the arbiter agrees, and all else
// without asking it.
func TestSharesAreAskedFor(t *testing.T) {
	arbiter := &fakeArbiter{}
	o := newOwner(arbiter)
	if err := o.change("batch-commands=7"); err != nil || len(arbiter.wishes) != 0 {
		t.Errorf("%v, the arbiter was asked for %v", err, arbiter.wishes)
	}
	if err := o.change("weight=300"); err != nil || arbiter.wishes[0]["weight"] != "300" {
		t.Fatalf("%v, the arbiter was asked for %v", err, arbiter.wishes)
	}
	o.mustHave(t, "weight", "300")
	arbiter.refuses = errors.New("too much")
	err := o.change("weight=400")
	if !errors.Is(err, ErrSetting) || !errors.Is(err, arbiter.refuses) {
		t.Errorf("%v of an arbiter that refuses", err)
	}
	o.mustHave(t, "weight", "300")
	arbiter.refuses, o.refuses = nil, errors.New("not now")
	arbiter.wishes = nil
	if err := o.change("weight=400"); !errors.Is(err, o.refuses) || len(arbiter.wishes) != 2 ||
		arbiter.wishes[1]["weight"] != "300" {
		t.Errorf("%v; what was asked for isn't taken back: %v", err, arbiter.wishes)
	}
	if err := o.change("weight=much"); err == nil || len(arbiter.wishes) != 2 {
		t.Errorf("%v, the arbiter was asked for nonsense", err)
	}
}

// TestBounds of the arbiter's operator hold in place of the owner's until they are taken back.
func TestBounds(t *testing.T) {
	o := newOwner(&fakeArbiter{})
	if err := o.change("weight=300"); err != nil {
		t.Fatal(err)
	}
	for _, bound := range []string{"50", "60"} {
		if err := o.bound(map[string]string{"weight": bound, "memory": "1G"}); err != nil {
			t.Fatal(err)
		}
		o.mustHave(t, "weight", bound)
		if err := o.change("weight=400"); err == nil ||
			!strings.Contains(err.Error(), "the arbiter has set it") {
			t.Errorf("the owner has set it anew: %v", err)
		}
	}
	if err := o.bound(map[string]string{"memory": "1G"}); err != nil {
		t.Fatal(err)
	}
	o.mustHave(t, "weight", "300")
	o.mustHave(t, "memory", "1G")
	o.refuses = errors.New("not now")
	if err := o.bound(map[string]string{"processes": "3"}); !errors.Is(err, o.refuses) {
		t.Error(err)
	}
	o.refuses = nil
	if err := o.change("processes=2"); err != nil {
		t.Errorf("what the device refused is bound: %v", err)
	}
}

// TestHolds: a change tells since when it holds.
func TestHolds(t *testing.T) {
	for _, test := range []struct {
		sharer Sharer
		text   string
		want   string
	}{
		{nil, "weight=300", "when there is an arbiter"},
		{&fakeArbiter{}, "weight=300", "when there is an arbiter"},
		{&fakeArbiter{joined: true}, "weight=300", "at once"},
		{nil, "batch-commands=7", "at once"},
	} {
		o := newOwner(test.sharer)
		if got := o.holds(test.text); got != test.want {
			t.Errorf("%s: %s, want %s", test.text, got, test.want)
		}
		if (o.turns() == nil) != (test.sharer == nil) {
			t.Errorf("turns %v", o.turns())
		}
	}
}
