// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"
)

// doubtTime is how long a trial that took too long counts: a busy host may have
// been the cause, but a VM that hangs is not to cost each run so much again.
const doubtTime = time.Hour

// finding is what a trial found. It holds for one QEMU, until the host reboots.
type finding struct {
	Boot  string    `json:"boot"`
	QEMU  string    `json:"qemu"`
	Accel string    `json:"accelerator"`
	Why   string    `json:"why,omitempty"`  // not KVM
	Until time.Time `json:"until,omitzero"` // it holds no longer than that, if set
}

func (f *finding) holds() bool {
	return f.Boot == bootID() && (f.Accel == KVM || f.Accel == TCG) &&
		(f.Until.IsZero() || time.Now().Before(f.Until))
}

// bootID names the time since the host last booted.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

// findings reads those of earlier trials that hold.
func findings(note string) []finding {
	text, err := os.ReadFile(note)
	if err != nil {
		return nil
	}
	var all []finding
	if json.Unmarshal(text, &all) != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(f finding) bool { return !f.holds() })
}

// recall finds what an earlier trial of that QEMU found.
func recall(note, qemu string) (finding, bool) {
	all := findings(note)
	i := slices.IndexFunc(all, func(f finding) bool { return f.QEMU == qemu })
	if i < 0 {
		return finding{}, false
	}
	return all[i], true
}

// remember keeps what a trial found. If it cannot, the next VM tries again.
func remember(note string, f finding) {
	others := slices.DeleteFunc(findings(note), func(o finding) bool { return o.QEMU == f.QEMU })
	text, err := json.Marshal(append(others, f))
	if err == nil && os.WriteFile(note+".new", append(text, '\n'), 0o644) == nil {
		os.Rename(note+".new", note)
	}
}
