// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"strconv"
	"testing"
)

// What the program copysizes copies.
const (
	copySizesExtra = 2 * 4096 // that it pins beyond the largest size: registered, and allocated
	copySizesWays  = 4        // of each size: in both directions, synchronously and queued
	pageableKinds  = 4        // of memory
	pinnedKinds    = 4
)

// copySizes is the sum of the sizes that copysizes copies.
func copySizes(smallest, largest int) (sum float64) {
	for size := largest; size >= smallest; size /= 8 {
		sum += float64(size)
	}
	return sum
}

// TestBytesCopied compares the counters with what a program copied: above the limit for copies
// through the arena no CPU touches a byte.
func TestBytesCopied(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, set         string
		smallest, largest int
		// How many kinds of memory count as copied by a CPU (at least; 0 is exact) and as mapped.
		copied, mapped float64
	}{
		{"all by reference", "inline-limit=0", 4096, 128 << 20, 0, pageableKinds + pinnedKinds},
		{"above the default limit", "", 2 << 20, 16 << 20, 0, pageableKinds + pinnedKinds},
		{"through the arena", "address-mapping=off", 4096, 16 << 20, pageableKinds, pinnedKinds},
	}
	inEach(t, func(t *testing.T, vm frontEnd) {
		for _, tt := range tests {
			if vm.name == "qemu" {
				tt.largest = min(tt.largest, 16<<20) // emulation takes long
			}
			t.Run(tt.name, func(t *testing.T) {
				stats := filepath.Join(logDir(t), "stats.json")
				options := []string{"--stats", stats}
				if tt.set != "" {
					options = append(options, "--set", tt.set)
				}
				p := program{file: "copysizes"}
				if err := p.expect("programs/want"); err != nil {
					t.Fatal(err)
				}
				r := vm.run(t, 4*vm.limit,
					append(options, "--", filepath.Join(programs, p.file),
						strconv.Itoa(tt.smallest), strconv.Itoa(tt.largest))...)
				if r.exit != 0 || r.stdout != p.stdout {
					t.Fatalf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
				}
				n := readStats(t, stats)
				each := copySizes(tt.smallest, tt.largest) * copySizesWays
				if want := tt.mapped*each +
					2*float64(tt.largest+copySizesExtra); n["bytes_mapped"] != want {
					t.Errorf("%.0f bytes mapped, want %.0f", n["bytes_mapped"], want)
				}
				if want := (tt.mapped - pinnedKinds) * each; n["bytes_direct"] != want {
					t.Errorf("%.0f bytes copied directly, want %.0f", n["bytes_direct"], want)
				}
				if want := tt.copied * each; n["bytes_copied"] < want ||
					want == 0 && n["bytes_copied"] != 0 {
					t.Errorf("%.0f bytes copied by a CPU, want %.0f", n["bytes_copied"], want)
				}
			})
		}
	})
}
