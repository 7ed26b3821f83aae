// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/internal/plain"
)

const psText = `Lists the VMs that have registered with the arbiter: their GPUs, how many programs
use them, device memory, and share. paracuda top has more, and goes on.`

// Ps is `paracuda ps`.
func Ps() *cobra.Command {
	path := ""
	c := &cobra.Command{
		Use:   "ps [--arbiter SOCKET]",
		Short: "list the VMs that have a GPU",
		Long:  psText,
		Args:  cli.TakesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE: func(*cobra.Command, []string) error {
			if err := cli.CheckSocket("--arbiter", path); err != nil {
				return err
			}
			vms, err := client.List(path)
			if err != nil {
				return err
			}
			listVMs(cli.Stdout, vms)
			return nil
		},
	}
	c.Flags().StringVar(&path, "arbiter", "", cli.ArbiterHelp)
	return c
}

// listVMs prints a line for each VM, by their names.
func listVMs(w io.Writer, vms []link.VM) {
	slices.SortFunc(vms, func(a, b link.VM) int { return strings.Compare(a.Name, b.Name) })
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VM\tGPU\tPROGRAMS\tMEMORY\tWEIGHT\tCLASS")
	for i := range vms {
		v := &vms[i]
		programs := "-" // it hasn't told yet
		if v.Figures != nil {
			programs = fmt.Sprint(len(v.Figures.Processes))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", plain.Text(v.Name), plain.Text(gpusOf(v)),
			programs, memoryOf(v), plain.Text(v.Policy["weight"]), plain.Text(v.Policy["class"]))
	}
	_ = t.Flush()
}

func gpusOf(v *link.VM) string {
	names := make([]string, len(v.GPUs))
	for i, g := range v.GPUs {
		names[i] = g.Name
	}
	return strings.Join(names, ",")
}
