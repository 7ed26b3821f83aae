// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/internal/plain"
)

const (
	batchMean  = "commands a batch"
	memoryKind = "memory: "
)

// printCounters prints a column for the VM and one for each of its programs.
func printCounters(w io.Writer, a *admin.Answer) {
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\tall\t")
	for _, p := range a.Programs {
		fmt.Fprintf(t, "%s (%d)\t", plain.Text(p.Name), p.PID)
	}
	fmt.Fprintln(t)
	row := func(name string, all map[string]uint64, of func(*admin.Program) map[string]uint64,
		value func(map[string]uint64) string) {
		fmt.Fprintf(t, "%s\t%s\t", name, value(all))
		for i := range a.Programs {
			fmt.Fprintf(t, "%s\t", value(of(&a.Programs[i])))
		}
		fmt.Fprintln(t)
	}
	stats := func(p *admin.Program) map[string]uint64 { return p.Stats }
	for _, name := range order(a.Stats) {
		row(shown(name), a.Stats, stats, func(s map[string]uint64) string {
			return inUnits(name, s[name])
		})
	}
	row(batchMean, a.Stats, stats, mean)
	kinds := map[string]uint64{}
	for _, m := range a.Memory {
		for kind, bytes := range m.Kinds {
			kinds[kind] += bytes
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		row(memoryKind+plain.Text(kind), kinds,
			func(p *admin.Program) map[string]uint64 { return p.Memory },
			func(s map[string]uint64) string { return MiB(s[kind]) + "M" })
	}
	_ = t.Flush()
}

// order is the order in which counters are explained. Those that aren't known here come last: the
// device process may be of another version.
func order(stats map[string]uint64) (names []string) {
	for i := range handover.Described {
		if _, told := stats[handover.Described[i].Name]; told {
			names = append(names, handover.Described[i].Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(stats)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// shown is a counter's name without its unit, which is printed with the values.
func shown(name string) string { return strings.TrimSuffix(plain.Text(name), "_ns") }

// inUnits is a counter's value as people read it.
func inUnits(name string, n uint64) string {
	for i := range handover.Described {
		c := &handover.Described[i]
		switch {
		case c.Name != name:
		case c.Measure == handover.Bytes:
			return roughly(n)
		case c.Measure == handover.Nanoseconds:
			return nanoseconds(n)
		}
	}
	return fmt.Sprint(n)
}

// mean is how many commands a batch had.
func mean(s map[string]uint64) string {
	if s["batches"] == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(s["commands"])/float64(s["batches"]))
}
