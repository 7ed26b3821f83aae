// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/size"
	"github.com/paracuda/paracuda/internal/plain"
)

// Tenant is what a VM has of the host's GPUs, as its arbiter knows it.
type Tenant struct {
	VM   string   `json:"vm"`
	GPUs []string `json:"gpus"` // as VMs call them
	// Memory is what it has now, of all its GPUs together.
	Memory uint64 `json:"memory"`
	// OnEach is what of that is on each of its GPUs, in their order; none: that isn't known.
	OnEach []uint64 `json:"memoryOnEach,omitempty"`
	// Given is what it was given of each, by --gpu auto:N,memory=SIZE.
	Given  uint64            `json:"given,omitempty"`
	Policy map[string]string `json:"policy,omitempty"` // what is set of memory, and exclusive
	Faults []TenantFault     `json:"faults,omitempty"`
}

// TenantFault says that a GPU is broken, or gone, for a VM.
type TenantFault struct {
	GPU   string    `json:"gpu"`
	Error string    `json:"error"`
	Since time.Time `json:"since"`
}

// faultsOf are the faults of a VM's GPUs.
func faultsOf(v *link.VM) (all []TenantFault) {
	if v.Figures == nil {
		return nil
	}
	for _, f := range v.Figures.Faults {
		if f.GPU >= 0 && f.GPU < len(v.GPUs) {
			all = append(all, TenantFault{
				GPU: plain.Text(v.GPUs[f.GPU].Name), Error: gpubackend.Result(f.Result).String(),
				Since: time.Unix(f.Time, 0).UTC(),
			})
		}
	}
	return all
}

// tenantKeys are the policies that are shown of a VM.
var tenantKeys = []string{policy.Memory, policy.Guarantee, policy.Mode, policy.Exclusive}

// Tenants are what VMs have, by their names.
func Tenants(vms []link.VM) []Tenant {
	all := make([]Tenant, len(vms))
	for i := range vms {
		v, t := &vms[i], &all[i]
		*t = Tenant{
			VM: plain.Text(v.Name), Given: v.Room, Faults: faultsOf(v), Policy: map[string]string{},
		}
		for _, g := range v.GPUs {
			t.GPUs = append(t.GPUs, plain.Text(g.Name))
		}
		if v.Figures != nil {
			for _, bytes := range v.Figures.Memory {
				t.Memory += bytes
			}
			if len(v.Figures.OnEach) == len(v.GPUs) {
				t.OnEach = v.Figures.OnEach
			}
		}
		for _, key := range tenantKeys {
			value := v.Policy[key]
			if value != "" && value != policy.Off {
				t.Policy[key] = plain.Text(value)
			}
		}
	}
	slices.SortFunc(all, func(a, b Tenant) int { return strings.Compare(a.VM, b.VM) })
	return all
}

// memoryOn says how much memory a VM has on its GPU i.
func (t *Tenant) memoryOn(i int) string {
	text := fmt.Sprintf("%d MiB", t.Memory>>20)
	if n := len(t.GPUs); n > 1 {
		text = fmt.Sprintf("%s of its %d GPUs together", text, n)
	}
	if len(t.GPUs) > 1 && i < len(t.OnEach) {
		text = fmt.Sprintf("%d MiB, %s", t.OnEach[i]>>20, text)
	}
	return text
}

// PrintTenants prints a line for each VM that has one of the GPUs that are meant.
func PrintTenants(w io.Writer, meant func(gpu string) bool, all []Tenant) {
	for i := range all {
		t := &all[i]
		gpu := slices.IndexFunc(t.GPUs, meant)
		if gpu < 0 {
			continue
		}
		fmt.Fprintf(w, "    VM %s: has %s", t.VM, t.memoryOn(gpu))
		if t.Given != 0 {
			fmt.Fprintf(w, ", was given %s", size.Format(t.Given))
		}
		for _, key := range tenantKeys {
			if value, ok := t.Policy[key]; ok {
				fmt.Fprintf(w, ", %s=%s", key, value)
			}
		}
		fmt.Fprintln(w)
		for _, f := range t.Faults {
			if meant(f.GPU) {
				fmt.Fprintf(w, "      %s is broken, or gone, since %s: %s\n", f.GPU,
					f.Since.Format(time.DateTime), f.Error)
			}
		}
	}
}
