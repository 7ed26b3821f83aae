// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"strconv"
	"testing"
)

// What the program copysizes copies: each size both ways, at once and queued.
const (
	// beyond the largest, that it pins: once registered and once allocated
	copySizesExtra = 2 * 4096
	copySizesWays  = 4
	pageableKinds  = 4 // of memory
	pinnedKinds    = 4
)

// copySizes is the sum of its sizes.
func copySizes(smallest, largest int) (sum float64) {
	for size := largest; size >= smallest; size /= 8 {
		sum += float64(size)
	}
	return sum
}

// TestBytesCopied compares the counters with what a program copied: no CPU
// touches a byte above the limit for copies through the arena.
func TestBytesCopied(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, set         string
		smallest, largest int
		// kinds of memory whose copies count as such. copied: at the least; 0 is exact
		copied, mapped float64
	}{
		{"all by reference", "inline-limit=0", 4096, 128 << 20, 0, pageableKinds + pinnedKinds},
		{"above the default limit", "", 2 << 20, 16 << 20, 0, pageableKinds + pinnedKinds},
		{"through the arena", "address-mapping=off", 4096, 16 << 20, pageableKinds, pinnedKinds},
	}
	inEach(t, func(t *testing.T, vm frontEnd) {
		for _, tt := range tests {
			if vm.name == "qemu" {
				tt.largest = min(tt.largest, 16<<20) // emulated, it takes long
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
					t.Errorf("%.0f bytes between guest pages and the program's device memory, "+
						"want %.0f", n["bytes_direct"], want)
				}
				if want := tt.copied * each; n["bytes_copied"] < want ||
					want == 0 && n["bytes_copied"] != 0 {
					t.Errorf("%.0f bytes copied by a CPU, want %.0f", n["bytes_copied"], want)
				}
			})
		}
	})
}
