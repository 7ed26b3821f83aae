// SPDX-License-Identifier: Apache-2.0

package fixed

import (
	"maps"
	"os"
	"testing"

	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

func TestMap(t *testing.T) {
	if m := (Counts{}).Map(); m != nil {
		t.Errorf("nothing is %v", m)
	}
	m := Counts{Graphs: 2, SharedEvents: 1}.Map()
	if !maps.Equal(m, map[string]uint64{"graphs": 2, "shared_events": 1}) {
		t.Error(m)
	}
}

// TestNames: each kind has one of its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{"": true}
	for k, name := range Names {
		if seen[name] {
			t.Errorf("kind %d: %q", k, name)
		}
		seen[name] = true
	}
}
