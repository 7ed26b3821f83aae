// SPDX-License-Identifier: Apache-2.0

package away

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestPrepare: the driver is told, and its answer is the key until the device stays.
func TestPrepare(t *testing.T) {
	key := [KeyBytes]byte{1, 15: 2}
	var told []bool
	var a *Away
	var seconds uint32
	a = New(Config{Stays: func() error { return nil }, Answer: time.Minute, Tell: func(goes bool) {
		told = append(told, goes)
		if !goes {
			return
		}
		if _, ok := a.Heard([KeyBytes]byte{}); ok {
			t.Error("no key is one")
		}
		seconds, _ = a.Heard(key)
	}})
	if _, ok := a.Heard(key); ok {
		t.Error("a driver that wasn't asked has answered")
	}
	if err := a.Prepare(90 * time.Second); err != nil || seconds != 90 {
		t.Fatalf("%v, %d s", err, seconds)
	}
	const want = "01000000000000000000000000000002"
	if a.Key() != want || Known(key) != want {
		t.Errorf("key %q", a.Key())
	}
	if _, ok := a.Heard([KeyBytes]byte{3}); ok || a.Key() != want {
		t.Error("the driver has another key now")
	}
	if err := a.Prepare(time.Second); !errors.Is(err, errGoes) {
		t.Errorf("prepared twice: %v", err)
	}
	a.Stay()
	a.Stay()
	if a.Key() != "" || !slices.Equal(told, []bool{true, false}) {
		t.Errorf("key %q, the driver was told %v", a.Key(), told)
	}
	if err := a.Prepare(0); err != nil || seconds != 1 {
		t.Errorf("%v, %d s", err, seconds)
	}
}

// TestNotPrepared: a driver isn't told of a device that can't be away, and a device whose driver
// doesn't answer stays.
func TestNotPrepared(t *testing.T) {
	no := errors.New("no")
	why := no
	var told []bool
	a := New(Config{Stays: func() error { return why }, Answer: time.Millisecond,
		Tell: func(goes bool) { told = append(told, goes) }})
	if err := a.Prepare(time.Second); !errors.Is(err, no) || told != nil {
		t.Fatalf("%v, told %v", err, told)
	}
	why = nil
	if err := a.Prepare(time.Second); !errors.Is(err, errAnswer) ||
		!slices.Equal(told, []bool{true, false}) {
		t.Fatalf("%v, told %v", err, told)
	}
	if _, ok := a.Heard([KeyBytes]byte{1}); ok || a.Key() != "" {
		t.Error("an answer that came too late counts")
	}
	a.Goes() // the process before this one had told the driver
	if _, ok := a.Heard([KeyBytes]byte{1}); ok {
		t.Error("nobody waits for an answer")
	}
	if a.Stay(); !slices.Equal(told, []bool{true, false, true, false}) {
		t.Errorf("told %v", told)
	}
}

// TestStaysMeanwhile: if Stay is called while the driver is told that the device goes, the driver
// is told last that it stays, and Prepare doesn't wait for an answer.
func TestStaysMeanwhile(t *testing.T) {
	told := make(chan bool, 8)
	var a *Away
	stayed := make(chan struct{})
	a = New(Config{Stays: func() error { return nil }, Answer: time.Hour, Tell: func(goes bool) {
		if goes {
			go func() {
				defer close(stayed)
				a.Stay()
			}()
			for a.Key() == "" && !a.stays() { // until Stay is about to tell the driver
				time.Sleep(time.Millisecond)
			}
			time.Sleep(10 * time.Millisecond)
		}
		told <- goes
	}})
	if err := a.Prepare(time.Second); !errors.Is(err, errStays) {
		t.Errorf("%v", err)
	}
	<-stayed
	for last := true; ; {
		select {
		case last = <-told:
			continue
		default:
		}
		if last {
			t.Error("the driver was told last that the device goes")
		}
		return
	}
}

// stays says whether the device does.
func (a *Away) stays() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.goes
}
