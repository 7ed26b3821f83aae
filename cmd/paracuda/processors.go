// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/starter"
)

// For as many processors as it finds the Go runtime has structures, and as soon as it looks for
// garbage, which it does before main then, threads for a quarter of them. On a host with hundreds
// of processors that is hundreds of threads a VM that do nothing. So processes begin with fewer,
// where more would be no faster: by GOMAXPROCS in the environment with which they are executed.

// How many processors roles use. A worker on the software GPU uses all: they are its GPU.
const (
	allProcessors     = 0
	waitingProcessors = 2  // keepers and starter processes wait
	moverProcessors   = 4  // one thread copies; what populates memory are system calls
	mostProcessors    = 16 // of all others: as many parts as are worked on at a time (overlap)
)

// Variables of the environment. The second has how many processors the first process had.
const (
	goProcessors    = "GOMAXPROCS"
	knownProcessors = "PARACUDA_PROCESSORS"
)

// withProcessors is an environment for a role that uses so many. Where there are few, it stays as
// it is.
func withProcessors(environment []string, most int) []string {
	total, known := runtime.GOMAXPROCS(0), false
	rest := []string{}
	for _, v := range environment {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case knownProcessors:
			if n, err := strconv.Atoi(value); err == nil && n > mostProcessors {
				total, known = n, true
			}
		case goProcessors:
		default:
			rest = append(rest, v)
		}
	}
	if !known && total <= mostProcessors {
		return environment
	}
	n := total
	if most != allProcessors {
		n = min(n, most)
	}
	return append(rest, fmt.Sprint(goProcessors, "=", n), fmt.Sprint(knownProcessors, "=", total))
}

// processorsOf is how many a child uses.
func processorsOf(r starter.Role, gpu string) int {
	switch {
	case r == starter.Worker && gpu == gpuSoft:
		return allProcessors
	case r == starter.Mover:
		return moverProcessors
	}
	return mostProcessors
}

// childEnvironment is that of a child, whose parent has the environment, or this process's if that
// is nil.
func childEnvironment(environment []string, r starter.Role, gpu string) []string {
	if environment == nil {
		environment = os.Environ()
	}
	return withProcessors(environment, processorsOf(r, gpu))
}
