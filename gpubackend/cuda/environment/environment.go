// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// visibleDevices chooses GPUs. The guest chooses among those that the host has chosen.
const visibleDevices = "CUDA_VISIBLE_DEVICES"

// passed are the variables of a guest process that its worker takes over, with what each may be:
// the values of NVIDIA's programming guide. Other values are ignored, as is
// CUDA_MODULE_LOADING=DEFAULT, which means the same. Not in the list are variables that name files,
// libraries or sockets of the host (CUDA_CACHE_PATH, CUDA_INJECTION64_PATH, core dumps, MPS), that
// set what VMs share (CUDA_CACHE_MAXSIZE, CUDA_AUTO_BOOST), that make a process wait for a
// debugger, and those that the guest's library applies. docs/guest.md lists them all.
var passed = map[string]func(value string) bool{
	"CUDA_BINARY_LOADER_THREAD_COUNT":  between(0, 64),
	"CUDA_CACHE_DISABLE":               oneOf("0", "1"),
	"CUDA_DEVICE_MAX_CONNECTIONS":      between(1, 32),
	"CUDA_DEVICE_MAX_COPY_CONNECTIONS": between(1, 32),
	"CUDA_DISABLE_JIT":                 oneOf("0", "1"),
	"CUDA_DISABLE_PERF_BOOST":          oneOf("0", "1"),
	"CUDA_DISABLE_PTX_JIT":             oneOf("0", "1"),
	"CUDA_FORCE_PRELOAD_LIBRARIES":     oneOf("0", "1"),
	"CUDA_FORCE_JIT":                   oneOf("0", "1"),
	"CUDA_FORCE_PTX_JIT":               oneOf("0", "1"),
	"CUDA_GRAPHS_USE_NODE_PRIORITY":    oneOf("0", "1"),
	"CUDA_MODULE_DATA_LOADING":         oneOf("DEFAULT", "LAZY", "EAGER"),
	"CUDA_MODULE_LOADING":              oneOf("LAZY", "EAGER"),
	"CUDA_SCALE_LAUNCH_QUEUES":         oneOf("0.25x", "0.5x", "2x", "4x"),
}

func oneOf(values ...string) func(string) bool {
	return func(value string) bool { return slices.Contains(values, value) }
}

func between(least, most int) func(string) bool {
	return func(value string) bool {
		n, err := strconv.Atoi(value)
		return err == nil && n >= least && n <= most
	}
}

// moduleLoading is always set: unless somebody says otherwise, modules are loaded at first use.
// Older drivers do so only when told, and the guest's library reports it (cuModuleGetLoadingMode).
const (
	moduleLoading        = "CUDA_MODULE_LOADING"
	moduleLoadingDefault = "LAZY"
)

// admitted returns the variables that env sets in this process, by name.
func admitted(env []string) map[string]string {
	set := make(map[string]string)
	if _, ok := os.LookupEnv(moduleLoading); !ok {
		set[moduleLoading] = moduleLoadingDefault
	}
	for _, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		switch {
		case !ok:
		case name == visibleDevices && !strings.ContainsRune(value, 0):
			host, ok := os.LookupEnv(visibleDevices)
			set[name] = chooseDevices(host, ok, value)
		case passed[name] != nil && passed[name](value):
			set[name] = value
		}
	}
	return set
}

// Apply sets what env may set, before the driver reads it.
func Apply(env []string) error {
	for name, value := range admitted(env) {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// Has says whether all that env sets is set already.
func Has(env []string) bool {
	for name, value := range admitted(env) {
		if is, ok := os.LookupEnv(name); !ok || is != value {
			return false
		}
	}
	return true
}

// chooseDevices applies a guest's choice to the host's. As in CUDA, a list ends at its first bad
// entry.
func chooseDevices(host string, hostSet bool, guest string) string {
	if !hostSet {
		return guest
	}
	var offered, chosen []string
	for _, e := range strings.Split(host, ",") {
		if e = strings.TrimSpace(e); e != "" {
			offered = append(offered, e)
		}
	}
	for _, e := range strings.Split(guest, ",") {
		device := chooseDevice(offered, strings.TrimSpace(e))
		if device == "" {
			break
		}
		chosen = append(chosen, device)
	}
	if len(chosen) == 0 {
		return "-1"
	}
	return strings.Join(chosen, ",")
}

func chooseDevice(offered []string, entry string) string {
	if i, err := strconv.Atoi(entry); err == nil {
		if i < 0 || i >= len(offered) {
			return ""
		}
		return offered[i]
	}
	for _, o := range offered {
		if entry != "" && strings.HasPrefix(o, entry) {
			return o
		}
	}
	return ""
}
