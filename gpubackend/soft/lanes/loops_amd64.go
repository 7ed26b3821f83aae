// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"maps"

	"golang.org/x/sys/cpu"
)

func init() {
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		best = maps.Clone(goLoops)
		maps.Copy(best, avxLoops)
	}
}
