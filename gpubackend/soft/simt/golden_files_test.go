// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// writeGolden writes what a program needs to make the golden results on a real GPU: the module, the
// inputs, and which inputs each kernel takes.
func writeGolden(t *testing.T, dir string, list []instruction, text []byte) {
	t.Helper()
	var inputs, sets []byte
	for _, set := range []string{"i", "f", "d", "h"} {
		inputs, _ = binary.Append(inputs, binary.LittleEndian, goldenInputs(set))
	}
	for _, in := range list {
		sets = append(sets, in.inputs[0])
	}
	for name, data := range map[string][]byte{"module.ptx": append(text, 0), "inputs.bin": inputs,
		"sets.bin": sets} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// reportGolden logs the first differences from the full results, if these are at hand.
func reportGolden(t *testing.T, i int, in instruction, got []uint64) {
	t.Helper()
	all, err := os.ReadFile(filepath.Join(os.Getenv("PARACUDA_GOLDEN_DIR"), "results.bin"))
	if err != nil {
		return
	}
	args, shown := goldenInputs(in.inputs), 0
	for k := range got {
		want := binary.LittleEndian.Uint64(all[(i*goldenThreads+k)*8:])
		if got[k] != want && shown < 3 {
			shown++
			t.Logf("  a %#x b %#x c %#x: %#x, want %#x", args[k], args[goldenThreads+k],
				args[2*goldenThreads+k], got[k], want)
		}
	}
}
