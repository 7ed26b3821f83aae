// SPDX-License-Identifier: Apache-2.0

package hostgpus

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/size"
)

// parseAuto reads how many GPUs are to be chosen, and how much free memory each needs.
func (c *Choice) parseAuto(text string) error {
	count, rest, sized := strings.Cut(text, ",")
	bytes, isMemory := strings.CutPrefix(rest, "memory=")
	n, err := strconv.ParseUint(count, 10, 16)
	if err != nil || n == 0 || n > Most || sized && !isMemory {
		return fmt.Errorf("%s: want auto:N or auto:N,memory=SIZE for the N GPUs, 1 to %d, with "+
			"the most free memory", shown(c.text), Most)
	}
	if sized {
		if c.memory, err = size.Parse(bytes); err != nil {
			return fmt.Errorf("%s: %w", shown(c.text), err)
		}
	}
	c.auto = int(n)
	return nil
}

// Automatic is how many GPUs are to be chosen by their free memory, and how much each needs; 0: the
// choice names them.
func (c *Choice) Automatic() (count int, memory uint64) { return c.auto, c.memory }

// Named is a --gpu that names these GPUs, in this order.
func Named(gpus []GPU) string {
	uuids := make([]string, len(gpus))
	for i := range gpus {
		uuids[i] = gpus[i].UUID
	}
	return CUDA + ":" + strings.Join(uuids, ",")
}

// available is the free memory of a GPU, as far as that is known.
func (g *GPU) available() uint64 {
	if g.Free == 0 {
		return g.Memory
	}
	return g.Free
}

// free returns the GPUs with the most free memory, in the host's order.
func (c *Choice) free(host []GPU) ([]GPU, error) {
	var fit []int
	for i := range host {
		if host[i].available() >= c.memory {
			fit = append(fit, i)
		}
	}
	if len(fit) < c.auto {
		return nil, fmt.Errorf("--gpu %s: %d of the host's %d GPUs have that much memory free "+
			"(paracuda probe): ask for fewer or less", shown(c.text), len(fit), len(host))
	}
	slices.SortStableFunc(fit, func(a, b int) int {
		return cmp.Compare(host[b].available(), host[a].available())
	})
	fit = fit[:c.auto]
	slices.Sort(fit)
	gpus := make([]GPU, len(fit))
	for k, i := range fit {
		gpus[k] = host[i]
	}
	return gpus, nil
}
