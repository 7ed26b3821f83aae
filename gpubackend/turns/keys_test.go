// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"maps"
	"slices"
	"testing"
	"time"
)

func TestKeys(t *testing.T) {
	var p Policy
	for key, value := range map[string]string{
		"weight": "7", "time-limit": "30", "class": "latency", "turn": "2ms",
	} {
		if err := p.Set(key, value); err != nil {
			t.Error(err)
		}
		if got := p.Values()[key]; got != value {
			t.Errorf("%s is %q, want %q", key, got, value)
		}
	}
	if want := (Policy{7, 30, Latency, 2 * time.Millisecond}); p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	if err := p.Set("turn", "auto"); err != nil || p.Turn != 0 || p.Values()["turn"] != "auto" {
		t.Errorf("turn=auto: %+v, %v", p, err)
	}
	var names []string
	for _, k := range Settings {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	if values := slices.Sorted(maps.Keys(p.Values())); !slices.Equal(names, values) {
		t.Errorf("keys %v, values of %v", names, values)
	}
}

func TestBadKeys(t *testing.T) {
	p := Policy{Weight: 5}
	for _, x := range [][2]string{
		{"weight", "0"}, {"weight", "-1"}, {"weight", "10001"}, {"weight", "many"},
		{"colour", "red"},
		{"time-limit", "0"}, {"time-limit", "101"}, {"class", "best"},
		{"turn", "0"}, {"turn", "1"}, {"turn", "2s"}, {"turn", "1us"},
	} {
		if err := p.Set(x[0], x[1]); err == nil {
			t.Errorf("%s=%s was taken", x[0], x[1])
		}
	}
	if p != (Policy{Weight: 5}) {
		t.Errorf("after errors the policy is %+v", p)
	}
}
