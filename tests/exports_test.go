// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"debug/elf"
	"path/filepath"
	"testing"
)

// defined lists the symbols that a shared library exports.
func defined(t *testing.T, file string) map[string]bool {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	names := map[string]bool{}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			names[s.Name] = true
		}
	}
	return names
}

// TestExports: the guest's library exports all names of the toolkits' stub libraries. Programs are
// linked with those.
func TestExports(t *testing.T) {
	if testing.Short() {
		skip(t, "-short: the toolkits may be missing")
	}
	ours := defined(t, filepath.Join(root, "build/guest/lib/libcuda.so.1"))
	for _, toolkit := range []string{"cuda-11.8", "cuda-12.4"} {
		stub := defined(t,
			cached(toolkit+"/root/usr/lib/x86_64-linux-gnu/stubs/libcuda.so"))
		if len(stub) < 400 {
			t.Errorf("%s: %d names, want some 500", toolkit, len(stub))
		}
		for name := range stub {
			if !ours[name] {
				t.Errorf("%s: the library lacks %s", toolkit, name)
			}
		}
	}
}
