// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"strings"
)

// lateKeys are for things that a program's worker does once, as it starts.
var lateKeys = map[string]bool{
	"staging": true, "soft-memory": true, "graph-replay": true, "allow-pageable-access": true,
	"movable-code": true, "other-gpu": true, "soft-peers": true,
}

// gpuKeys hold for one kind of GPU only.
var gpuKeys = map[string]struct{ gpu, why string }{
	"soft-memory":  {"soft", "a real GPU has its own: memory=SIZE gives the VM less"},
	"soft-lost":    {"soft", "a real GPU is lost by itself"},
	"soft-peers":   {"soft", "whether real GPUs reach one another is the host's matter"},
	"other-gpu":    {"cuda", "software GPUs are all the same"},
	"movable-code": {"cuda", "the software GPU always does so"},
	"allow-pageable-access": {"cuda",
		"the software GPU reaches what the worker maps, and nothing else"},
}

// suits refuses a setting that would do nothing on a GPU.
func suits(gpu, text string) error {
	key, _, _ := strings.Cut(text, "=")
	if only, ok := gpuKeys[key]; ok && only.gpu != gpu {
		return fmt.Errorf("%w %s: it does nothing here: %s", ErrSetting, text, only.why)
	}
	return nil
}

// holdsSince says from when on a changed setting holds.
func holdsSince(text string) string {
	key, _, _ := strings.Cut(text, "=")
	if lateKeys[key] {
		return "for programs that start from now on"
	}
	return "at once"
}

// Values are all settings, by their keys.
func (s *Settings) Values() map[string]string {
	all := map[string]string{}
	for _, x := range keys {
		all[x.key] = x.get(s)
	}
	return all
}
