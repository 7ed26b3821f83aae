// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/size"
	"github.com/paracuda/paracuda/internal/plain"
)

// gpuTime is the counter of the time for which work was on the GPU.
const gpuTime = "gpu_time_ns"

// order is the busiest first, and those with work before those without.
func (t *topTable) order(a, b *link.VM) int {
	return cmp.Or(-cmp.Compare(t.busy(a), t.busy(b)), -cmp.Compare(a.HeldNS, b.HeldNS),
		strings.Compare(a.Name, b.Name))
}

// busy is the part of the time for which a VM had the GPU: what its turns held, or, where it needs
// no turns, what its workers measured.
func (t *topTable) busy(v *link.VM) float64 {
	old := t.vmBefore(v.Name)
	if old == nil || t.gone <= 0 {
		return v.Share
	}
	part := func(now, before uint64) float64 {
		if now < before {
			return 0
		}
		return min(1, float64(now-before)/float64(t.gone))
	}
	held := part(v.HeldNS, old.HeldNS)
	if v.Alone {
		held = max(held, part(counter(v, gpuTime), counter(old, gpuTime)))
	}
	return held
}

// counter is one of a VM's counters; 0 if the VM has none of that name.
func counter(v *link.VM, name string) uint64 {
	if v.Figures == nil {
		return 0
	}
	return v.Figures.Counters[name]
}

// String is the table.
func (t *topTable) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %d VMs\n\n", t.at.Format(time.TimeOnly), len(t.now))
	w := tabwriter.NewWriter(&b, 2, 0, 2, ' ', 0)
	places, header := slices.ContainsFunc(t.now, isPlaced), ""
	if places {
		header = "\tPLACE\tMOVING"
	}
	fmt.Fprintln(w, "VM\tTURN\tGPU\tWEIGHT\tLIMIT\tCLASS\tGPU TIME\t"+
		"TURNS\tWAITED\tDEBT\tOVERRUNS\tMEMORY\tLAUNCHES\tCOPIED\tERRORS"+header)
	for i := range t.now {
		v := &t.now[i]
		fmt.Fprintf(w, "%s\t%s\t%.0f%%\t%s\t%s%%\t%s\t%s\t%d\t%s\t%s\t%d\t%s\t%d\t%s\t%d%s\n",
			plain.Text(v.Name), turnOf(v), 100*t.busy(v), plain.Text(v.Policy["weight"]),
			plain.Text(v.Policy["time-limit"]), plain.Text(v.Policy["class"]),
			nanoseconds(counter(v, gpuTime)), v.Turns,
			nanoseconds(v.WaitedNS), nanoseconds(v.DebtNS), v.Overruns, memoryOf(v),
			counter(v, "launches"), roughly(copiedBy(v)), counter(v, "errors"),
			placeOf(v, places))
	}
	_ = w.Flush()
	t.processes(&b)
	return b.String()
}

// processes adds the guests' processes.
func (t *topTable) processes(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nVM\tPID\tPROCESS\tGPU TIME\tTURNS\tWAITED\tOVERRUNS\t"+
		"MEMORY\tLAUNCHES\tCOPIED\tERRORS")
	n := 0
	for i := range t.now {
		f := t.now[i].Figures
		if f == nil {
			continue
		}
		slices.SortFunc(f.Processes, func(p, q link.Process) int {
			return -cmp.Compare(p.Counters[gpuTime], q.Counters[gpuTime])
		})
		for _, p := range f.Processes {
			n++
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%s\t%d\t%s\t%d\t%s\t%d\n",
				plain.Text(t.now[i].Name), p.PID, plain.Text(p.Name),
				nanoseconds(p.Counters[gpuTime]), p.Counters["turns_used"],
				nanoseconds(p.Counters["turn_wait_ns"]), p.Counters["turns_overrun"],
				bytesOf(p.Memory), p.Counters["launches"], roughly(copied(p.Counters)),
				p.Counters["errors"])
		}
	}
	if n > 0 {
		_ = w.Flush()
	}
}

// turnOf says whether a VM has its turn now.
func turnOf(v *link.VM) string {
	switch {
	case v.Figures != nil && v.Figures.State != "":
		return plain.Text(v.Figures.State)
	case v.Alone:
		return "-"
	case v.Open:
		return "*"
	}
	return ""
}

// isPlaced says whether a VM takes turns with a GPU's memory.
func isPlaced(v link.VM) bool { return v.Place != "" }

// placeOf is where a VM's memory is, and for what part of the time it was moved, in two columns.
func placeOf(v *link.VM, shown bool) string {
	switch {
	case !shown:
		return ""
	case !isPlaced(*v):
		return "\t\t"
	}
	return fmt.Sprintf("\t%s\t%.1f%%", plain.Text(v.Place), 100*moving(v))
}

// moving is the part of the time since a VM joined in which its memory was moved.
func moving(v *link.VM) float64 {
	return float64(v.SwapNS) / max(1, float64(v.SwapNS)+float64(v.InNS)+float64(v.OutNS))
}

// copiedBy is how many bytes a VM copied.
func copiedBy(v *link.VM) uint64 {
	if v.Figures == nil {
		return 0
	}
	return copied(v.Figures.Counters)
}

// copied is how many bytes were copied in all ways.
func copied(c map[string]uint64) uint64 {
	return c["bytes_copied"] + c["bytes_mapped"] + c["bytes_direct"]
}

// memoryOf is what a VM has, and may have.
func memoryOf(v *link.VM) string {
	has := "-"
	if v.Figures != nil {
		has = bytesOf(v.Figures.Memory)
	}
	most, err := size.Parse(v.Policy["memory"])
	switch {
	case err == nil: // of each GPU, and it has that of all
		has += " / " + roughly(v.OnAll(most))
	case v.Memory() != 0:
		has += " / " + roughly(v.Memory())
	}
	return has
}

// bytesOf is the sum of memory of all kinds.
func bytesOf(kinds map[string]uint64) string {
	if len(kinds) == 0 {
		return "-"
	}
	var sum uint64
	for _, n := range kinds {
		sum += n
	}
	return roughly(sum)
}

// roughly is a size that people read: in whole units above which there are at least 10.
func roughly(n uint64) string {
	shift := 0
	for n>>shift >= 10<<10 && shift < 40 {
		shift += 10
	}
	return size.Format(n >> shift << shift)
}

// nanoseconds is a time that people read.
func nanoseconds(n uint64) string {
	d := time.Duration(min(n, 1<<62))
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
