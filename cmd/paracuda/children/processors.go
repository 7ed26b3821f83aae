// SPDX-License-Identifier: Apache-2.0

package children

import (
	"os"

	"github.com/paracuda/paracuda/cmd/paracuda/process"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/starter"
)

// moverProcessors is how many a mover uses: one thread copies; what populates memory are system
// calls.
const moverProcessors = 4

// processorsOf is how many a child uses. A worker on the software GPU uses all: they are its GPU.
func processorsOf(r starter.Role, gpu string) int {
	switch {
	case r == starter.Worker && gpu == hostgpus.Soft:
		return process.AllProcessors
	case r == starter.Mover:
		return moverProcessors
	}
	return process.MostProcessors
}

// childEnvironment is that of a child, whose parent has the environment, or this process's if that
// is nil.
func childEnvironment(environment []string, r starter.Role, gpu string) []string {
	if environment == nil {
		environment = os.Environ()
	}
	return process.WithProcessors(environment, processorsOf(r, gpu))
}
