// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"maps"
	"testing"
)

func TestSet(t *testing.T) {
	var p Policy
	set := map[string]string{
		"weight": "7", "time-limit": "30", "class": "latency", "turn": "2ms", "memory": "8G",
		"memory-guarantee": "3G", "memory-mode": "swap", "processes": "4", "exclusive": "on",
	}
	if len(set) != len(Keys) {
		t.Errorf("%d keys, want all %d", len(set), len(Keys))
	}
	if err := p.SetAll(set); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(p.Values(), set) {
		t.Errorf("%v, want %v", p.Values(), set)
	}
	before := p
	for key, value := range map[string]string{
		"weight": "10001", "time-limit": "0", "class": "", "turn": "5", "memory": "2G",
		"memory-guarantee": "9G", "memory-mode": "on", "exclusive": "yes", "processes": "0",
		"color": "red",
	} {
		both := map[string]string{"a": "never", key: value}
		if err := p.Set(key, value); err == nil || p != before {
			t.Errorf("%s=%s: %v, %+v; want an error and no change", key, value, err, p)
		}
		if err := p.SetAll(both); !errors.Is(err, ErrKey) || p != before {
			t.Errorf("with an unknown one: %v, %+v", err, p)
		}
	}
	if b := (Policy{}).Bounds(); len(b) != 0 {
		t.Errorf("nothing is set, and the device is to keep %v", b)
	}
}
