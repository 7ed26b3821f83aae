// SPDX-License-Identifier: Apache-2.0

package children

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// badness is how soon the kernel kills the processes of a role when the host has no memory left
// (proc(5), oom_score_adj): a worker first, which costs one program in the guest its GPU, then the
// mover, and both before the device process and the VMs, whose score is 0 unless the host's
// administrator set another. A mover has all of the guest's memory mapped, which counts as its own,
// so its score is well below a worker's. The process that reads the GPU's use is started again.
var badness = map[string]int{"worker": 1000, "usage": 1000, "mover": 500}

// goFirst gives a child its badness, unless it inherited a higher one.
func goFirst(pid int, role string) error {
	path := fmt.Sprintf("/proc/%d/oom_score_adj", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read oom_score_adj: %w", err)
	}
	inherited, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("read oom_score_adj: %w", err)
	}
	if inherited >= badness[role] {
		return nil
	}
	if err := os.WriteFile(path, strconv.AppendInt(nil, int64(badness[role]), 10), 0); err != nil {
		return fmt.Errorf("raise oom_score_adj: %w", err)
	}
	return nil
}
