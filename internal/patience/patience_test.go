// SPDX-License-Identifier: Apache-2.0

package patience

import (
	"testing"
	"time"
)

// TestPatience: what a busy machine takes doesn't count, up to a bound.
func TestPatience(t *testing.T) {
	now, waited := time.Unix(1000, 0), 7*time.Second
	p := &Patience{most: time.Minute, begin: now, waited: waited,
		now: func() time.Time { return now }, waitedTime: func() time.Duration { return waited }}
	pass := func(d, busy time.Duration) bool {
		now, waited = now.Add(d), waited+busy
		return p.Over()
	}
	if pass(30*time.Second, 0) || pass(29*time.Second, 0) {
		t.Error("it is over before its time")
	}
	if pass(time.Minute, time.Minute) {
		t.Error("a busy minute counts")
	}
	if !pass(2*time.Second, 0) {
		t.Error("it isn't over after its time")
	}
	if pass(-2*time.Second, 0) || !pass(busiest*time.Minute, busiest*time.Minute) {
		t.Error("a machine that is always busy makes it endless")
	}
	if p.Renew(); p.Spent() != 0 {
		t.Errorf("%v have gone by at once", p.Spent())
	}
	if pass(time.Minute, 20*time.Second); p.Spent() != 40*time.Second {
		t.Errorf("%v of a minute count, 20 s of which were busy", p.Spent())
	}
	if pass(0, time.Hour); p.Spent() != time.Minute/busiest {
		t.Errorf("%v of a minute count that was all busy", p.Spent())
	}
	if p.Renew(); p.Over() || pass(time.Minute, 0) || !pass(time.Second, 0) {
		t.Error("it doesn't begin anew")
	}
	const said = "some avg10=99.46 avg60=99.24 avg300=98.82 total=12300551436\n" +
		"full avg10=0.00 avg60=0.00 avg300=0.00 total=3\n"
	if got := pressureOf(said); got != 12300551436*time.Microsecond || pressureOf("") != 0 {
		t.Errorf("a machine has waited for %v", got)
	}
	const spent = "cpu  2807364 532444 1438356 1458424 5909 0 4092 7064 16 0\n" +
		"cpu0 1403682 266222 719178 729212 2954 0 2046 3532 8 0\n"
	short := stolenOf("cpu  1 2 3\n")
	if got := stolenOf(spent); got != 7064*tick || short != 0 || stolenOf("") != 0 {
		t.Errorf("the host has taken %v", got)
	}
}
