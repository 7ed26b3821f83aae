// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// How long the finding of a trial that took too long holds. A busy host may have been the cause, so
// the time is short at first, and as long as others keep the processors busy. But a VM that hangs
// must not delay every run: each time one hangs on a quiet host, the time doubles.
const (
	firstDoubt = time.Minute
	mostDoubt  = time.Hour
)

// doubt is how long the finding of a trial that took too long holds, after one that held for before
// (0: there was none).
func doubt(before time.Duration, busy bool) time.Duration {
	if busy {
		return firstDoubt
	}
	return min(max(2*before, firstDoubt), mostDoubt)
}

// finding is what a trial found. It holds for one QEMU, until the host reboots.
type finding struct {
	Boot  string    `json:"boot"`
	QEMU  string    `json:"qemu"`
	Accel string    `json:"accelerator"`
	Why   string    `json:"why,omitempty"`  // not KVM
	Until time.Time `json:"until,omitzero"` // it holds no longer than that, if set

	Doubt time.Duration `json:"doubt,omitzero"` // how long it held, if it held no longer than that
}

func (f *finding) holds() bool { return f.Until.IsZero() || time.Now().Before(f.Until) }

// counts says whether a finding is of this host since its last boot. One that no longer holds still
// says how long the next one holds.
func (f *finding) counts() bool {
	return f.Boot == bootID() && (f.Accel == KVM || f.Accel == TCG)
}

// again says when KVM is tried again without being asked; "" if not before the next boot.
func (f *finding) again() string {
	if f.Doubt == 0 {
		return ""
	}
	return fmt.Sprintf("it is tried again in %v, or ",
		max(time.Until(f.Until), time.Second).Round(time.Second))
}

// bootID names the time since the host last booted.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

// mostNote bounds how much of a note is read: enough for some hundred QEMUs.
const mostNote = 1 << 16

// findings reads those findings of earlier trials that count. A file that isn't a note has none,
// and is replaced by the next note.
func findings(note string) []finding {
	if info, err := os.Lstat(note); err != nil || !info.Mode().IsRegular() ||
		info.Size() > mostNote {
		return nil
	}
	text, err := os.ReadFile(note)
	if err != nil {
		return nil
	}
	var all []finding
	if json.Unmarshal(text, &all) != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(f finding) bool { return !f.counts() })
}

// recall finds what an earlier trial of that QEMU found, whether it still holds or not.
func recall(note, qemu string) (finding, bool) {
	all := findings(note)
	i := slices.IndexFunc(all, func(f finding) bool { return f.QEMU == qemu })
	if i < 0 {
		return finding{}, false
	}
	return all[i], true
}

// remember keeps what a trial found. If it can't, the next VM tries again. Where several VMs start
// at the same time, the note of the last is kept, whole.
func remember(note string, f finding) {
	others := slices.DeleteFunc(findings(note), func(o finding) bool { return o.QEMU == f.QEMU })
	text, err := json.Marshal(append(others, f))
	if err != nil {
		return
	}
	draft, err := os.CreateTemp(filepath.Dir(note), filepath.Base(note)+".*")
	if err != nil {
		return
	}
	defer os.Remove(draft.Name()) // if it doesn't become the note
	_, err = draft.Write(append(text, '\n'))
	if err = errors.Join(err, draft.Close()); err == nil {
		os.Rename(draft.Name(), note)
	}
}
