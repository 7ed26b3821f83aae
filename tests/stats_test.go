// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"os"
	"testing"
)

// copied is the least number of bytes that the listed programs copy between host and device:
// pageable alone copies its 6 MiB buffer three times in both directions.
const copied = 40 << 20

// checkStats checks the counters of a batch of programs: they are all there, and fit together.
func checkStats(t *testing.T, file string, programs int) {
	n := readStats(t, file)
	if least := float64(10 * programs); n["commands"] < least {
		t.Errorf("%.0f commands of %d programs, want %.0f or more", n["commands"], programs, least)
	}
	if n["batches"] < 1 || n["batches"] > n["commands"] {
		t.Errorf("%.0f batches, want 1 to %.0f, the commands", n["batches"], n["commands"])
	}
	sum := 0.0
	for _, name := range batchEnds {
		sum += n[name]
	}
	if sum != n["batches"] {
		t.Errorf("%.0f batches, but %.0f ends of batches, want the same", n["batches"], sum)
	}
	if n["kicks"] < 1 {
		t.Error("no kicks, want at least 1")
	}
	if sum := n["bytes_copied"] + n["bytes_mapped"]; sum < copied {
		t.Errorf("%.0f bytes copied or mapped, want %d or more", sum, copied)
	}
	if n["bytes_mapped"] == 0 {
		t.Error("no bytes mapped: a CPU copied every payload")
	}
	t.Logf("%v", n)
}

// batchEnds are the counters of the reasons why batches ended.
var batchEnds = []string{
	"batches_drained", "batches_answered", "batches_full", "batches_full_bytes", "batches_delayed",
	"batches_stalled", "batches_held",
}

// readStats reads the counters that `paracuda run --stats` wrote.
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
