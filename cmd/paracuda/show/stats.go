// SPDX-License-Identifier: Apache-2.0

// Package show has the commands that show operators what VMs have of the GPUs: stats, of one VM by
// its device process; top and ps, of all by the arbiter. Programs' names come from guests, and are
// shown without control characters (Plain).
package show

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/internal/plain"
)

const statsText = `Prints the GPU, the policies and the counters of a running VM: its sum and
its programs; and whether it could be saved or migrated now, or why not. SOCKET is the device's
control socket. Sizes are in K, M, G and T, rounded; with --json all are exact, in bytes and
nanoseconds.`

// Stats is `paracuda stats`.
func Stats() *cobra.Command {
	raw := false
	c := &cobra.Command{
		Use:                   "stats [--json] SOCKET",
		Short:                 "print the counters of a running VM",
		Long:                  statsText,
		DisableFlagsInUseLine: true,
		Args:                  cli.TakesSocket,
		RunE: func(_ *cobra.Command, args []string) error {
			return stats(args[0], raw)
		},
	}
	c.Flags().BoolVar(&raw, "json", false, "print JSON")
	return c
}

// stats prints the counters of a running VM.
func stats(socket string, raw bool) error {
	a, err := admin.Ask(socket, admin.Request{Stats: true, Movable: true})
	if err != nil {
		return err
	}
	if raw {
		e := json.NewEncoder(cli.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(a)
	}
	printStats(a)
	return nil
}

// printStats prints a column for the VM and one for each of its programs.
func printStats(a *admin.Answer) {
	fmt.Fprintln(cli.Stdout, "gpu:", a.GPU)
	printState(a.State)
	printMovable(a)
	for _, t := range a.Trouble {
		fmt.Fprintf(cli.Stdout, "trouble: %s: %s\n", plain.Text(t.Found), plain.Text(t.Fix))
	}
	fmt.Fprintln(cli.Stdout, "policies:")
	for _, key := range slices.Sorted(maps.Keys(a.Policies)) {
		fmt.Fprintf(cli.Stdout, "  %s=%s\n", key, a.Policies[key])
	}
	printTurns(a.Turns)
	printCounters(cli.Stdout, a)
	printMemory(a)
}

// printState prints whether the VM is suspended; nil: the device doesn't say.
func printState(s *suspend.Status) {
	if s == nil {
		return
	}
	fmt.Fprintf(cli.Stdout, "state: %s", s.State)
	if s.Image != 0 {
		fmt.Fprintf(cli.Stdout, ", %s MiB of device memory in the host's memory", MiB(s.Image))
	}
	if s.Kept != 0 {
		fmt.Fprintf(cli.Stdout, ", %s MiB kept in the host's memory for the next suspend",
			MiB(s.Kept))
	}
	fmt.Fprintln(cli.Stdout)
}

// printMovable prints whether the VM can be saved or migrated, and what of its programs can't be
// made anew elsewhere.
func printMovable(a *admin.Answer) {
	switch {
	case a.Movable == nil: // the device doesn't say
	case a.Movable.Now:
		fmt.Fprintln(cli.Stdout, "movable: yes")
	default:
		fmt.Fprintln(cli.Stdout, "movable: no:", plain.Text(a.Movable.Why))
	}
	for _, p := range a.Programs {
		var list []string
		for _, kind := range slices.Sorted(maps.Keys(p.Fixed)) {
			list = append(list, fmt.Sprintf("%s %d", kind, p.Fixed[kind]))
		}
		if len(list) > 0 {
			fmt.Fprintf(cli.Stdout, "fixed: %s (%d): %s\n", plain.Text(p.Name), p.PID,
				strings.Join(list, ", "))
		}
	}
}

// printTurns prints what the arbiter told of the VM; nil: there is none.
func printTurns(v *link.VM) {
	if v == nil {
		fmt.Fprintln(cli.Stdout, "turns: no arbiter")
		return
	}
	fmt.Fprintf(cli.Stdout, "turns: %d, held %s, waited %s, overruns %d, debt %s, now %.0f%%\n",
		v.Turns, nanoseconds(v.HeldNS), nanoseconds(v.WaitedNS), v.Overruns,
		nanoseconds(v.DebtNS), 100*v.Share)
	if isPlaced(*v) {
		fmt.Fprintf(cli.Stdout, "memory: %s, moved out %d times, %d MiB out and in, "+
			"moving for %.1f%% of the time\n", plain.Text(v.Place), v.Swaps, v.Swapped>>20,
			100*moving(v))
		if v.Unmoved > 0 {
			fmt.Fprintf(cli.Stdout, "memory: couldn't move %d times: the device's log says why\n",
				v.Unmoved)
		}
	}
}

// printMemory prints what the VM has of each GPU that it uses.
func printMemory(a *admin.Answer) {
	for _, m := range a.Memory {
		fmt.Fprintf(cli.Stdout, "device memory: %s MiB", MiB(m.Used))
		if m.Bound != 0 {
			fmt.Fprintf(cli.Stdout, " of %s", MiB(m.Bound))
		}
		for _, part := range []struct {
			name string
			has  map[string]uint64
		}{{"the mover", m.Mover}, {"warm workers", m.Warm}} {
			sum := uint64(0)
			for _, bytes := range part.has {
				sum += bytes
			}
			if sum != 0 {
				fmt.Fprintf(cli.Stdout, ", %s of that of %s", MiB(sum), part.name)
			}
		}
		fmt.Fprintln(cli.Stdout)
	}
}

// MiB is bytes in MiB, rounded up.
func MiB(bytes uint64) string { return fmt.Sprint(bytes>>20 + min(1, bytes&(1<<20-1))) }
