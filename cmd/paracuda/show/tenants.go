// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/size"
)

// Tenant is what a VM has of the host's GPUs, as its arbiter knows it.
type Tenant struct {
	VM   string   `json:"vm"`
	GPUs []string `json:"gpus"` // as VMs call them
	// Memory is what it has now, of all its GPUs together.
	Memory uint64 `json:"memory"`
	// Given is what it was given of each, by --gpu auto:N,memory=SIZE.
	Given  uint64            `json:"given,omitempty"`
	Policy map[string]string `json:"policy,omitempty"` // what is set of memory, and exclusive
}

// tenantKeys are what is told of a VM's policy.
var tenantKeys = []string{policy.Memory, policy.Guarantee, policy.Mode, policy.Exclusive}

// Tenants are what VMs have, by their names.
func Tenants(vms []link.VM) []Tenant {
	all := make([]Tenant, len(vms))
	for i := range vms {
		v, t := &vms[i], &all[i]
		*t = Tenant{VM: Plain(v.Name), Given: v.Room, Policy: map[string]string{}}
		for _, g := range v.GPUs {
			t.GPUs = append(t.GPUs, Plain(g.Name))
		}
		if v.Figures != nil {
			for _, bytes := range v.Figures.Memory {
				t.Memory += bytes
			}
		}
		for _, key := range tenantKeys {
			value := v.Policy[key]
			if value != "" && value != policy.Off {
				t.Policy[key] = Plain(value)
			}
		}
	}
	slices.SortFunc(all, func(a, b Tenant) int { return strings.Compare(a.VM, b.VM) })
	return all
}

// PrintTenants prints a line for each VM that has a GPU.
func PrintTenants(w io.Writer, gpu string, all []Tenant) {
	for i := range all {
		t := &all[i]
		if !slices.Contains(t.GPUs, gpu) {
			continue
		}
		fmt.Fprintf(w, "    VM %s: has %d MiB", t.VM, t.Memory>>20)
		if n := len(t.GPUs); n > 1 {
			fmt.Fprintf(w, " of its %d GPUs together", n)
		}
		if t.Given != 0 {
			fmt.Fprintf(w, ", was given %s", size.Format(t.Given))
		}
		for _, key := range tenantKeys {
			if value, ok := t.Policy[key]; ok {
				fmt.Fprintf(w, ", %s=%s", key, value)
			}
		}
		fmt.Fprintln(w)
	}
}
