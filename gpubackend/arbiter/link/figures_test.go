// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode"
)

func TestClean(t *testing.T) {
	f := Figures{
		Memory: map[string]uint64{
			"window": 5, "a b": 6, "": 7, "x\n": 8, strings.Repeat("k", 99): 9,
		},
		Counters: map[string]uint64{"launches": 1, "Ä": 2, "a\"b": 3},
		OnEach:   make([]uint64, 99),
	}
	for i := range 1000 {
		f.Processes = append(f.Processes, Process{Name: "\x1b[2J" + strings.Repeat("é", 99)})
		f.Counters[fmt.Sprint("c", i)] = 1
	}
	f.Clean()
	if len(f.Memory) != 1 || f.Memory["window"] != 5 {
		t.Errorf("memory %v", f.Memory)
	}
	if len(f.Counters) != maxCounters || len(f.Processes) != maxProcesses ||
		len(f.OnEach) != maxGPUs {
		t.Errorf("%d counters, %d processes and %d GPUs", len(f.Counters), len(f.Processes),
			len(f.OnEach))
	}
	if want := "?[2J" + strings.Repeat("é", maxName-4); f.Processes[0].Name != want {
		t.Errorf("name %q, want %q", f.Processes[0].Name, want)
	}
}

// TestLargestFits: figures that are as large as they may be fit a message.
func TestLargestFits(t *testing.T) {
	full := func(n int) map[string]uint64 {
		m := map[string]uint64{}
		for i := range n {
			m[fmt.Sprintf("%0*d", maxKey, i)] = math.MaxUint64
		}
		return m
	}
	f := Figures{Memory: full(maxKinds), Counters: full(maxCounters)}
	for range maxGPUs {
		f.OnEach = append(f.OnEach, math.MaxUint64)
	}
	for range maxProcesses {
		f.Processes = append(f.Processes, Process{
			PID: math.MinInt32, Name: strings.Repeat("\U0010ffff\u2028<", maxName),
			Memory: full(maxKinds), Counters: full(maxCounters),
		})
	}
	f.Clean()
	b, err := json.Marshal(&Answer{VMs: []VM{{Figures: &f}}})
	if err != nil || len(b) > maxBytes {
		t.Errorf("%d bytes, %v; at most %d fit a message", len(b), err, maxBytes)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("python3")
	f.Add("\x1b]0;x\x07\xff\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		for _, r := range Plain(text) {
			if n++; !unicode.IsPrint(r) {
				t.Errorf("%q has %U", Plain(text), r)
			}
		}
		if n > maxName {
			t.Errorf("%q has %d characters", text, n)
		}
	})
}
