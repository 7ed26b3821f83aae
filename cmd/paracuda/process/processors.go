// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// For as many processors as it finds the Go runtime has structures, and as soon as it looks for
// garbage, which it does before main then, threads for a quarter of them. On a host with hundreds
// of processors that is hundreds of threads a VM that do nothing. So processes begin with fewer,
// where more would be no faster: by GOMAXPROCS in the environment with which they are executed.

// How many processors roles use.
const (
	AllProcessors     = 0  // that there are
	WaitingProcessors = 2  // keepers and starter processes wait
	MostProcessors    = 16 // of all others: as many parts as are worked on at a time (overlap)
)

// Variables of the environment. The second has how many processors the first process had.
const (
	goProcessors    = "GOMAXPROCS"
	knownProcessors = "PARACUDA_PROCESSORS"
)

// WithProcessors is an environment for a role that uses so many. Where there are few, it stays as
// it is.
func WithProcessors(environment []string, most int) []string {
	total, known := runtime.GOMAXPROCS(0), false
	rest := []string{}
	for _, v := range environment {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case knownProcessors:
			if n, err := strconv.Atoi(value); err == nil && n > MostProcessors {
				total, known = n, true
			}
		case goProcessors:
		default:
			rest = append(rest, v)
		}
	}
	if !known && total <= MostProcessors {
		return environment
	}
	n := total
	if most != AllProcessors {
		n = min(n, most)
	}
	return append(rest, fmt.Sprint(goProcessors, "=", n), fmt.Sprint(knownProcessors, "=", total))
}
