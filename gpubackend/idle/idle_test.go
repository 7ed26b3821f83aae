// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"testing"
	"time"
)

// soon is a time in which something happens that is due.
const soon = time.Minute

// newVM is a VM, and a channel that tells when its time is over.
func newVM(after time.Duration) (*VM, chan struct{}) {
	ends := make(chan struct{}, 10)
	return New(after, func() { ends <- struct{}{} }), ends
}

func awaitEnd(t *testing.T, ends chan struct{}) {
	t.Helper()
	select {
	case <-ends:
	case <-time.After(soon):
		t.Fatal("the time is never over")
	}
}

func TestKeeps(t *testing.T) {
	v, _ := newVM(time.Hour)
	for _, step := range []struct {
		name string
		do   func()
		want bool
	}{
		{"nobody came", func() {}, false},
		{"a driver came", v.DriverCame, true},
		{"it has gone", v.Gone, false},
		{"a program begins", v.Begin, true},
		{"the time is over while it begins", func() { v.Over(false) }, true},
		{"and while it runs", func() { v.Began(); v.Over(true) }, true},
		{"and after it", func() { v.Over(false) }, false},
		{"it is never idle", func() { v.SetTime(0) }, true},
	} {
		if step.do(); v.Keeps() != step.want {
			t.Errorf("%s: keeps %t", step.name, v.Keeps())
		}
	}
}

func TestOver(t *testing.T) {
	v, ends := newVM(time.Millisecond)
	v.Begin()
	v.Rested(false) // it begins
	v.Began()
	v.Rested(true) // it runs
	if v.timer != nil {
		t.Fatal("a time begins while the GPU is used")
	}
	v.Rested(false)
	awaitEnd(t, ends)
	if !v.Over(false) || v.Keeps() {
		t.Error("the time is over, and the VM isn't idle")
	}
}

// TestNewTime begins with each program that ends, and with another setting.
func TestNewTime(t *testing.T) {
	v, ends := newVM(time.Hour)
	v.DriverCame()
	v.Rested(false)
	first := v.timer
	v.SetTime(time.Millisecond)
	v.Rested(false)
	if first.Stop() {
		t.Error("the first time goes on")
	}
	awaitEnd(t, ends)
	if !v.Over(false) {
		t.Error("the time is over, and the VM isn't idle")
	}
	v.SetTime(0)
	last := v.timer
	if v.Rested(false); v.timer != last || v.Over(false) {
		t.Error("a VM that is never idle is")
	}
}
