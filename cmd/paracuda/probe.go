// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/soft"
)

const probeText = `Says which GPUs the host has for guests: those of the CUDA driver, in
the order of their bus ids, and the software GPU. --gpu cuda:LIST names them by
index, UUID or bus id. It exits with 1 where none can be used.`

func probeCommand() *cobra.Command {
	quick, asJSON := false, false
	c := &cobra.Command{
		Use:   "probe [--quick|--json]",
		Short: "say which GPUs the host has for guests",
		Long:  probeText,
		Args:  cli.TakesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE: func(*cobra.Command, []string) error {
			if quick && asJSON {
				return cli.Usagef("probe: want --quick or --json")
			}
			if quick {
				printWhether(cli.Stdout, gpuCUDA, nil, cuda.Available())
				return nil
			}
			return probeAll(cli.Stdout, asJSON, cuda.List, softGPUs)
		},
	}
	c.Flags().BoolVar(&quick, "quick", false,
		"only say whether there is a CUDA driver, which isn't started")
	c.Flags().BoolVar(&asJSON, "json", false, "print the GPUs as JSON")
	return c
}

// probed is what --json says of a kind of GPU.
type probed struct {
	Error string         `json:"error,omitempty"`
	GPUs  []hostgpus.GPU `json:"gpus,omitempty"`
}

// lister tells the GPUs of a kind.
type lister func() ([]hostgpus.GPU, error)

// probeAll prints what each kind of GPU has. One that can be used is enough.
func probeAll(w io.Writer, asJSON bool, inCUDA, inSoft lister) error {
	all, broken := map[string]probed{}, 0
	for _, kind := range []struct {
		name string
		list lister
	}{{gpuCUDA, inCUDA}, {gpuSoft, inSoft}} {
		gpus, err := kind.list()
		p := probed{GPUs: gpus}
		if err != nil {
			p.Error = err.Error()
			broken++
		}
		all[kind.name] = p
		if !asJSON {
			printWhether(w, kind.name, gpus, err)
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

// printWhether prints whether a kind can be used, and its GPUs.
func printWhether(w io.Writer, kind string, gpus []hostgpus.GPU, err error) {
	if err != nil {
		fmt.Fprintf(w, "%s: no: %v\n", kind, err)
		return
	}
	fmt.Fprintf(w, "%s: yes\n", kind)
	for i := range gpus {
		g := &gpus[i]
		fmt.Fprintf(w, "  GPU %d: %v, %v, %s\n", i, g, g.Place, g.UUID)
		if len(g.Peers) != 0 {
			names := strings.ReplaceAll(strings.Trim(fmt.Sprint(g.Peers), "[]"), " ", ", ")
			fmt.Fprintf(w, "    reaches the memory of GPU %s\n", names)
		}
	}
}

// softGPUs opens the software GPU, as a worker does.
func softGPUs() ([]hostgpus.GPU, error) {
	s := settings.Default()
	_, policy := s.Build()
	d := soft.New(soft.Options{Memory: policy.SoftMemory})
	defer d.Close()
	snapshot, r := d.Open(nil)
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("open the software GPU: %w", err)
	}
	all := make([]hostgpus.GPU, len(snapshot.Device))
	for i := range all {
		all[i] = hostgpus.Described(&snapshot.Device[i])
	}
	return all, nil
}
