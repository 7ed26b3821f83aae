// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"slices"
	"strings"
)

// Variables are the environment variables that a child gets if its parent has them. A name that
// ends in _ stands for all that begin with it.
var variables = []string{
	"CUDA_", "NVIDIA_", "NV_", // the driver's
	"LD_LIBRARY_PATH",                              // where the driver is
	"HOME",                                         // where the driver keeps what it has compiled
	"PATH",                                         // where the driver looks for its helpers
	"TMPDIR",                                       // where the driver has its sockets
	"LANG",                                         // of the driver's messages
	"GODEBUG", "GOMAXPROCS", "GOTRACEBACK", "GOGC", // the Go runtime's, for debugging
	"GORACE", "GOCOVERDIR",
	"PARACUDA_PROCESSORS", // how many there are, for children of processes that use few
}

// Environment returns, as NAME=VALUE, the variables of an environment that a child needs, and those
// that more names. It is never nil.
func Environment(all, more []string) (some []string) {
	some = []string{}
	for _, v := range all {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(more, name) || slices.ContainsFunc(variables, func(w string) bool {
			return w == name || strings.HasSuffix(w, "_") && strings.HasPrefix(name, w)
		}) {
			some = append(some, v)
		}
	}
	return some
}
