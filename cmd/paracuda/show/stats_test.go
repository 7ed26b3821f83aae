// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/holdings"
)

// TestCountersInUnits: sizes and times are rounded, with units, and counts are exact.
func TestCountersInUnits(t *testing.T) {
	all := map[string]uint64{"commands": 1234567, "batches": 1000, "bytes_copied": 123456789,
		"gpu_time_ns": 83_456_000_000, "zebras": 9}
	a := &admin.Answer{
		Stats:  all,
		Memory: []holdings.GPU{{Kinds: map[string]uint64{"window": 3<<20 + 1}}},
		Programs: []admin.Program{{PID: 7, Name: "a\x1bb",
			Stats:  map[string]uint64{"bytes_copied": 999, "gpu_time_ns": 1_500_000},
			Memory: map[string]uint64{"window": 1 << 20}}},
	}
	var out strings.Builder
	printCounters(&out, a)
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"all a?b (7)", "commands 1234567 0", "batches 1000 0", "bytes_copied 117M 999",
		"gpu_time 1m23s 1.5ms", "zebras 9 0", "commands a batch 1234.6 -", "memory: window 4M 1M"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAllIsExplained: each counter has a name, the unit that its name says, and an explanation.
// Each column of top and ps has an explanation, too.
func TestAllIsExplained(t *testing.T) {
	for _, c := range handover.Described {
		unit := handover.Times
		switch {
		case strings.HasSuffix(c.Name, "_ns"):
			unit = handover.Nanoseconds
		case strings.HasPrefix(c.Name, "bytes_"):
			unit = handover.Bytes
		}
		if c.Name == "" || c.Help == "" || c.Measure != unit {
			t.Errorf("%+v", c)
		}
	}
	explained := func(command string) string {
		var all strings.Builder
		for _, l := range Lists(command) {
			for _, i := range l.Items {
				if i.Help == "" {
					t.Errorf("%s: %s has no words", command, i.Name)
				}
				all.WriteString(" " + i.Name + ",")
			}
		}
		return all.String()
	}
	stats := explained("stats")
	for _, c := range handover.Described {
		if !strings.Contains(stats, " "+shown(c.Name)+",") {
			t.Errorf("stats --help lacks %s", c.Name)
		}
	}
	var top topTable
	v := vmOf("a", 0, false, 0)
	v.Place = "in"
	top.look([]link.VM{v}, time.Now())
	var ps strings.Builder
	listVMs(&ps, []link.VM{v})
	for command, text := range map[string]string{"top": top.String(), "ps": ps.String()} {
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "VM ") {
				continue
			}
			for _, column := range strings.Split(strings.TrimSpace(line), "  ") {
				if column = strings.TrimSpace(column); column != "" &&
					!strings.Contains(explained(command), " "+column+",") {
					t.Errorf("%s --help lacks %s", command, column)
				}
			}
		}
	}
}
