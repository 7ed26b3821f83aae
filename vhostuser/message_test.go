// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"fmt"
	"testing"
)

// The two tables have the same entries, and the names are those of the specification.
func TestTablesAgree(t *testing.T) {
	t.Parallel()
	for r, rule := range rules {
		if handlers[r] == nil {
			t.Errorf("%v has a rule and no handler", r)
		}
		if rule.min > rule.max || rule.maxFDs > MaxFDs || r.String() != rule.name {
			t.Errorf("rule of %v is %+v", r, rule)
		}
	}
	if len(handlers) != len(rules) {
		t.Errorf("%d handlers and %d rules", len(handlers), len(rules))
	}
	if got := Request(99).String(); got != "request 99" {
		t.Errorf("unknown request is %q", got)
	}
}

// The bytes are those of the specification, on a little-endian host.
func TestPayloadBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{"header", (&Message{Request: SetVringEnable, Flags: 9, Payload: []byte{7}}).AppendTo(nil),
			"12 00 00 00 09 00 00 00 01 00 00 00 07"},
		{"state", VringState{1, 256}.AppendTo(nil), "01 00 00 00 00 01 00 00"},
		{"address", VringAddr{1, 2, 3, 4, 5, 6}.AppendTo(nil),
			"01 00 00 00 02 00 00 00 03 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 " +
				"05 00 00 00 00 00 00 00 06 00 00 00 00 00 00 00"},
		{"config", ConfigAccess{1, 2, []byte{3, 4}}.AppendTo(nil),
			"01 00 00 00 02 00 00 00 02 00 00 00 03 04"},
		{"in flight", InFlight{1, 2, 3, 4}.AppendTo(nil),
			"01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03 00 04 00 00 00 00 00"},
		{"table", AppendMemTable(nil, []Region{{1, 2, 3, 4, nil}}),
			"01 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 " +
				"03 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00"},
	} {
		if got := fmt.Sprintf("% x", tt.got); got != tt.want {
			t.Errorf("%s: % x, want %s", tt.name, tt.got, tt.want)
		}
	}
}

// Each decoder gives back what was encoded, and refuses every shorter payload.
func TestPayloadsRoundTrip(t *testing.T) {
	t.Parallel()
	state, addr := VringState{1, 2}, VringAddr{1, 2, 3, 4, 5, 6}
	if got, err := decodeState(state.AppendTo(nil)); got != state || err != nil {
		t.Errorf("state %+v, %v", got, err)
	}
	if got, err := decodeAddr(addr.AppendTo(nil)); got != addr || err != nil {
		t.Errorf("address %+v, %v", got, err)
	}
	table := []Region{{1, 2, 3, 4, nil}, {5, 6, 7, 8, nil}}
	if got, err := decodeMemTable(append(AppendMemTable(nil, table), 0, 0)); len(got) != 2 ||
		got[1] != table[1] || err != nil {
		t.Errorf("table %+v, %v", got, err)
	}
	if _, err := decodeMemTable(AppendMemTable(nil, make([]Region, MaxFDs+1))); err == nil {
		t.Error("a table of nine regions was accepted")
	}
	decoders := map[string]struct {
		full   []byte
		decode func([]byte) error
	}{
		"state": {state.AppendTo(nil),
			func(b []byte) error { _, err := decodeState(b); return err }},
		"address": {addr.AppendTo(nil),
			func(b []byte) error { _, err := decodeAddr(b); return err }},
		"table": {AppendMemTable(nil, table),
			func(b []byte) error { _, err := decodeMemTable(b); return err }},
		"word": {word(5), func(b []byte) error { _, err := decodeWord(b); return err }},
		"config": {ConfigAccess{0, 0, []byte{1}}.AppendTo(nil),
			func(b []byte) error { _, err := decodeConfig(b); return err }},
		"region": {AppendRegion(word(0), table[0]),
			func(b []byte) error { _, err := singleRegion(b); return err }},
	}
	for name, d := range decoders {
		if err := d.decode(d.full); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range d.full {
			if d.decode(d.full[:n]) == nil {
				t.Errorf("%s: %d bytes of %d were accepted", name, n, len(d.full))
			}
		}
	}
}
