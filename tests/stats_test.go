// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"os"
	"testing"
)

// copied is how many bytes the listed programs copy between host and device at
// the least: pageable alone copies three times its 6 MiB buffer both ways.
const copied = 40 << 20

// checkStats says whether the counters that a batch of programs left are
// there and can be true.
func checkStats(t *testing.T, file string, programs int) {
	n := readStats(t, file)
	if least := float64(10 * programs); n["commands"] < least {
		t.Errorf("%.0f commands of %d programs, want %.0f or more", n["commands"], programs, least)
	}
	if n["batches"] < 1 || n["batches"] > n["commands"] {
		t.Errorf("%.0f batches of %.0f commands", n["batches"], n["commands"])
	}
	sum := 0.0
	for _, name := range batchEnds {
		sum += n[name]
	}
	if sum != n["batches"] {
		t.Errorf("%.0f batches, but %.0f ends of batches", n["batches"], sum)
	}
	if n["kicks"] < 1 {
		t.Error("no kicks")
	}
	if sum := n["bytes_copied"] + n["bytes_mapped"]; sum < copied {
		t.Errorf("%.0f bytes copied or mapped, want %d or more", sum, copied)
	}
	if n["bytes_mapped"] == 0 {
		t.Error("no bytes mapped: every payload was copied")
	}
	t.Logf("%v", n)
}

// batchEnds are the counters of why batches ended.
var batchEnds = []string{
	"batches_drained", "batches_answered", "batches_full", "batches_full_bytes", "batches_delayed",
	"batches_stalled", "batches_held",
}

// readStats reads the counters that `paracuda run --stats` left.
func readStats(t *testing.T, file string) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	n := map[string]float64{}
	for _, name := range append([]string{"commands", "batches", "kicks", "interrupts",
		"bytes_copied", "bytes_mapped", "bytes_direct",
		"commands_per_batch"}, batchEnds...) {
		value, ok := all[name].(float64)
		if !ok || value < 0 {
			t.Errorf("%s is %v, want a number", name, all[name])
		}
		n[name] = value
	}
	return n
}
