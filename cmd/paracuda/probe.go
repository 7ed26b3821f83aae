// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/cmd/paracuda/show"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/soft"
	"github.com/paracuda/paracuda/gpubackend/xid"
)

const probeText = `Says which GPUs the host has for guests: those of the CUDA driver, in
the order of their bus ids, and the software GPU; how they are joined; and what
each VM has of them, as the arbiter knows it. --gpu cuda:LIST names them by
index, UUID or bus id. It exits with 0 also if only the software GPU can be used.`

func probeCommand() *cobra.Command {
	quick, asJSON, arbiter := false, false, ""
	c := &cobra.Command{
		Use:   "probe [--quick|--json] [--arbiter SOCKET|none]",
		Short: "say which GPUs the host has for guests",
		Long:  probeText,
		Args:  cli.TakesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE: func(*cobra.Command, []string) error {
			if quick && asJSON {
				return cli.Usagef("probe: want --quick or --json")
			}
			if quick {
				printWhether(cli.Stdout, gpuCUDA, cuda.Available())
				return nil
			}
			vms, err := vmsOf(arbiter)
			if err != nil {
				return err
			}
			xids, _ := xid.Read(xid.Log) // only root may: for others there are none
			return probeAll(cli.Stdout, asJSON, sources{cuda.List, softGPUs, vms, xids})
		},
	}
	c.Flags().BoolVar(&quick, "quick", false,
		"only say whether there is a CUDA driver, which isn't started")
	c.Flags().BoolVar(&asJSON, "json", false, "print the GPUs as JSON")
	c.Flags().StringVar(&arbiter, "arbiter", "", cli.ArbiterHelp)
	return c
}

// vmsOf are the VMs that an arbiter knows, and what each has; none if there is no arbiter.
func vmsOf(path string) ([]link.VM, error) {
	if path == noArbiter {
		return nil, nil
	}
	if err := cli.CheckSocket("--arbiter", path); err != nil {
		return nil, err
	}
	vms, err := client.List(path)
	if path == "" && err != nil {
		if !errors.Is(err, client.ErrNone) {
			fmt.Fprintf(os.Stderr, "paracuda: probe: which VMs have them isn't known: %v\n", err)
		}
		return nil, nil
	}
	return vms, err
}

// probed is what --json says of a kind of GPU.
type probed struct {
	Error string         `json:"error,omitempty"`
	GPUs  []hostgpus.GPU `json:"gpus,omitempty"`
	// VMs are those that have one of them, as their arbiter knows it.
	VMs []show.Tenant `json:"vms,omitempty"`
	// Xids are what the kernel's log has of broken ones.
	Xids []xid.Message `json:"xids,omitempty"`
}

// lister lists the GPUs of a kind.
type lister func() ([]hostgpus.GPU, error)

// sources are where probe gets its facts.
type sources struct {
	cuda, soft lister
	vms        []link.VM
	xids       []xid.Message
}

// probeAll prints what each kind of GPU has. It fails only if none can be used.
func probeAll(w io.Writer, asJSON bool, from sources) error {
	all, broken := map[string]probed{}, 0
	for _, kind := range []struct {
		name string
		list lister
	}{{gpuCUDA, from.cuda}, {gpuSoft, from.soft}} {
		gpus, err := kind.list()
		p := probed{GPUs: gpus, VMs: show.Tenants(slices.DeleteFunc(slices.Clone(from.vms),
			func(v link.VM) bool { return isSoft(&v) != (kind.name == gpuSoft) }))}
		if kind.name == gpuCUDA {
			p.Xids = from.xids
		}
		if err != nil {
			p.Error = err.Error()
			broken++
		}
		all[kind.name] = p
		if !asJSON {
			printWhether(w, kind.name, err)
			printGPUs(w, kind.name, &p)
		}
	}
	if asJSON {
		if err := json.NewEncoder(w).Encode(all); err != nil {
			return err
		}
	}
	if broken == len(all) {
		return cli.ExitCode(1)
	}
	return nil
}

// isSoft says whether a VM has software GPUs.
func isSoft(v *link.VM) bool {
	return len(v.GPUs) > 0 && strings.HasPrefix(v.GPUs[0].Name, gpuSoft)
}

// printWhether prints whether a kind can be used.
func printWhether(w io.Writer, kind string, err error) {
	if err != nil {
		fmt.Fprintf(w, "%s: no: %v\n", kind, err)
		return
	}
	fmt.Fprintf(w, "%s: yes\n", kind)
}

// printGPUs prints the GPUs of a kind: what each is, how it is joined to others, and who has it.
func printGPUs(w io.Writer, kind string, p *probed) {
	for i := range p.GPUs {
		g := &p.GPUs[i]
		fmt.Fprintf(w, "  GPU %d: %v, %v, %s\n", i, g, g.Place, g.UUID)
		if g.Free != 0 {
			fmt.Fprintf(w, "    %d MiB are free\n", g.Free>>20)
		}
		if len(g.Peers) != 0 {
			names := strings.ReplaceAll(strings.Trim(fmt.Sprint(g.Peers), "[]"), " ", ", ")
			fmt.Fprintf(w, "    reaches the memory of GPU %s\n", names)
		}
		if links := linksOf(p.GPUs, g); links != "" {
			fmt.Fprintf(w, "    NVLinks: %s\n", links)
		}
		printXids(w, p.Xids, func(e *xid.Message) bool { return e.GPU == g.Place })
		show.PrintTenants(w, func(name string) bool {
			return name == g.UUID || kind == gpuSoft && softIsAt(name, i, len(p.GPUs))
		}, p.VMs)
	}
	printGone(w, kind, p)
	printXids(w, p.Xids, func(e *xid.Message) bool {
		return !slices.ContainsFunc(p.GPUs, func(g hostgpus.GPU) bool { return g.Place == e.GPU })
	})
}

// softIsAt says whether a VM's software GPU is told of at number i of those that are listed. Each
// VM has its own ones: those beyond the list are told of at its end.
func softIsAt(name string, i, listed int) bool {
	if i < listed-1 {
		return name == softName(i)
	}
	for k := range i {
		if name == softName(k) {
			return false
		}
	}
	return true
}

// printGone prints the GPUs that VMs have, but that aren't there, or no more.
func printGone(w io.Writer, kind string, p *probed) {
	if kind == gpuSoft {
		return
	}
	var gone []string
	for i := range p.VMs {
		for _, name := range p.VMs[i].GPUs {
			if !slices.ContainsFunc(p.GPUs, func(g hostgpus.GPU) bool { return g.UUID == name }) {
				gone = append(gone, name)
			}
		}
	}
	slices.Sort(gone)
	for _, name := range slices.Compact(gone) {
		fmt.Fprintf(w, "  a VM's GPU that isn't there: %s\n", name)
		show.PrintTenants(w, func(other string) bool { return other == name }, p.VMs)
	}
}

// lastXids is how many messages are printed for each GPU, and for GPUs that are gone.
const lastXids = 5

// printXids prints the last ones of the messages that meant accepts.
func printXids(w io.Writer, all []xid.Message, meant func(*xid.Message) bool) {
	var list []*xid.Message
	for i := range all {
		if meant(&all[i]) {
			list = append(list, &all[i])
		}
	}
	for _, e := range list[max(0, len(list)-lastXids):] {
		fmt.Fprintf(w, "    the kernel's log, %v after the host's start: GPU at %v: %v\n",
			e.Since.Truncate(time.Second), e.GPU, e)
	}
}

// linksOf says where a GPU's NVLinks lead.
func linksOf(all []hostgpus.GPU, g *hostgpus.GPU) string {
	ends, order := map[string]int{}, []string{}
	for _, l := range g.NVLinks {
		if l.Version == 0 {
			continue
		}
		end := "elsewhere"
		switch l.Remote {
		case hostgpus.RemoteSwitch:
			end = "switches"
		case hostgpus.RemoteGPU:
			for k := range all {
				if all[k].Place == l.At {
					end = fmt.Sprint("GPU ", k)
				}
			}
		}
		if ends[end]++; ends[end] == 1 {
			order = append(order, end)
		}
	}
	for i, end := range order {
		order[i] = fmt.Sprintf("%d to %s", ends[end], end)
	}
	return strings.Join(order, ", ")
}

// softGPUs opens the software GPU, as a worker does.
func softGPUs() ([]hostgpus.GPU, error) {
	s := settings.Default()
	_, policy := s.Build()
	d := soft.New(soft.Options{Memory: policy.SoftMemory})
	defer d.Close()
	inventory, r := d.Open(nil)
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("open the software GPU: %w", err)
	}
	all := make([]hostgpus.GPU, len(inventory.Device))
	for i := range all {
		all[i] = hostgpus.Described(&inventory.Device[i])
	}
	return all, nil
}
