// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"os"
	"strconv"
	"strings"
)

// visibleDevices chooses GPUs. The host's choice binds the guest, whose own chooses among those.
const visibleDevices = "CUDA_VISIBLE_DEVICES"

// passed are the variables of a guest process that its worker takes over. Left out are those that name files or
// libraries of the host (CUDA_CACHE_PATH, CUDA_INJECTION64_PATH, core dumps), choose an MPS server, or are the
// guest library's business (CUDA_LAUNCH_BLOCKING).
var passed = map[string]bool{
	"CUDA_AUTO_BOOST":                 true,
	"CUDA_BINARY_LOADER_THREAD_COUNT": true,
	"CUDA_CACHE_DISABLE":              true,
	"CUDA_CACHE_MAXSIZE":              true,
	"CUDA_DEVICE_MAX_CONNECTIONS":     true,
	"CUDA_DISABLE_JIT":                true,
	"CUDA_DISABLE_PTX_JIT":            true,
	"CUDA_FORCE_JIT":                  true,
	"CUDA_FORCE_PTX_JIT":              true,
	"CUDA_MODULE_DATA_LOADING":        true,
	"CUDA_MODULE_LOADING":             true,
	"CUDA_SCALE_LAUNCH_QUEUES":        true,
}

// moduleLoading is set in any case: where nobody says otherwise modules load when they are used, which older drivers
// do only when told, and which the guest's library reports (cuModuleGetLoadingMode).
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
		case !ok || strings.ContainsRune(value, 0):
		case name == visibleDevices:
			host, ok := os.LookupEnv(visibleDevices)
			set[name] = chooseDevices(host, ok, value)
		case passed[name]:
			set[name] = value
		}
	}
	return set
}

// applyEnvironment sets what env may set, before the driver reads it.
func applyEnvironment(env []string) error {
	for name, value := range admitted(env) {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// environmentHas says whether env sets nothing that isn't set to the same already.
func environmentHas(env []string) bool {
	for name, value := range admitted(env) {
		if is, ok := os.LookupEnv(name); !ok || is != value {
			return false
		}
	}
	return true
}

// chooseDevices applies a guest's choice to the host's. As in CUDA, a list ends at its first bad entry.
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
