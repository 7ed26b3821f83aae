// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/soft"
)

const probeText = `Says which GPUs the host has for guests: those of the CUDA driver, and the
software GPU. It exits with 1 where none can be used.`

func probeCommand() *cobra.Command {
	quick := false
	c := &cobra.Command{
		Use:   "probe [--quick]",
		Short: "say which GPUs the host has for guests",
		Long:  probeText,
		Args:  takesNothing, ValidArgsFunction: cobra.NoFileCompletions,
		DisableFlagsInUseLine: true,
		RunE: func(*cobra.Command, []string) error {
			if quick {
				printWhether(stdout, gpuCUDA, nil, cuda.Available())
				return nil
			}
			return probeAll(stdout, cuda.List, softGPUs)
		},
	}
	c.Flags().BoolVar(&quick, "quick", false,
		"only say whether there is a CUDA driver, which isn't started")
	return c
}

// probeAll prints what each kind of GPU has. One that can be used is enough.
func probeAll(w io.Writer, inCUDA, inSoft func() ([]string, error)) error {
	names, err := inCUDA()
	printWhether(w, gpuCUDA, names, err)
	names, broken := inSoft()
	printWhether(w, gpuSoft, names, broken)
	if err != nil && broken != nil {
		return exitCode(1)
	}
	return nil
}

// printWhether prints whether a kind can be used, and the names of its GPUs.
func printWhether(w io.Writer, kind string, names []string, err error) {
	if err != nil {
		fmt.Fprintf(w, "%s: no: %v\n", kind, err)
		return
	}
	fmt.Fprintf(w, "%s: yes\n", kind)
	for i, name := range names {
		fmt.Fprintf(w, "  GPU %d: %s\n", i, name)
	}
}

// softGPUs opens the software GPU, as a worker does.
func softGPUs() ([]string, error) {
	s := device.DefaultSettings()
	_, policy := s.Build()
	d := soft.New(soft.Options{Memory: policy.SoftMemory})
	defer d.Close()
	snapshot, r := d.Open(nil)
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("open the software GPU: %w", err)
	}
	names := make([]string, len(snapshot.Device))
	for i := range names {
		names[i] = cuda.Name(snapshot.Device[i].Name[:], snapshot.Device[i].TotalMemory)
	}
	return names, nil
}
