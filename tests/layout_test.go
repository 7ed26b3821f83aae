// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// toolkitHeaders is the folder with the cuda.h of the tests' compiler.
func toolkitHeaders(t *testing.T) string {
	dir := filepath.Join(filepath.Dir(compiler()), "include")
	if _, err := os.Stat(filepath.Join(dir, "cuda.h")); err != nil {
		skip(t, "no toolkit to compare with, run scripts/fetch-nvcc: %v", err)
	}
	return dir
}

// TestLayout compares the description of CUDA's structures and numbers with a toolkit's header.
func TestLayout(t *testing.T) {
	r := command(t, time.Minute, root, "tests/layout/check", toolkitHeaders(t))
	if r.exit == 77 {
		skip(t, "%s", r.stdout)
	}
	if r.exit != 0 {
		t.Fatalf("exit code %d:\n%s%s", r.exit, r.stdout, r.stderr)
	}
	t.Log(r.stdout) // also names what this toolkit's header lacks
	if !strings.Contains(r.stdout, " 0 wrong") {
		t.Errorf("want \" 0 wrong\":\n%s", r.stdout)
	}
}

// TestLayoutDiffers changes one thing in the header at a time: the comparison must find it.
func TestLayoutDiffers(t *testing.T) {
	headers := toolkitHeaders(t)
	header, err := os.ReadFile(filepath.Join(headers, "cuda.h"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(header)
	for _, c := range []struct{ name, old, new, want string }{
		{"a wider field", "unsigned int numAttrs;", "unsigned long long numAttrs;",
			"CUlaunchConfig.numAttrs size: 8"},
		{"another place", "unsigned int sharedMemBytes;",
			"char before[4]; unsigned int sharedMemBytes;",
			"CUlaunchConfig.sharedMemBytes offset: 28"},
		{"another number", "CU_MEMORYTYPE_UNIFIED = 0x04", "CU_MEMORYTYPE_UNIFIED = 0x05",
			"CU_MEMORYTYPE_UNIFIED value: 5"},
		{"no such name", "CU_TRSF_SRGB ", "CU_TRSF_NOTHING ", "CU_TRSF_SRGB: not in the header"},
		{"another error", "CUDA_ERROR_NOT_FOUND ", "CUDA_ERROR_NOT_FOUND = 501, CUDA_ERROR_ELSE ",
			"CUDA_ERROR_NOT_FOUND value: 501"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(text, c.old) {
				t.Fatalf("the header has no %q", c.old)
			}
			dir := t.TempDir()
			changed := strings.ReplaceAll(text, c.old, c.new)
			if err := os.WriteFile(filepath.Join(dir, "cuda.h"), []byte(changed),
				0o644); err != nil {
				t.Fatal(err)
			}
			r := command(t, time.Minute, root, "tests/layout/check", dir)
			if r.exit != 1 || !strings.Contains(r.stdout, c.want) {
				t.Errorf("exit code %d, want 1 and %q:\n%s%s", r.exit, c.want, r.stdout, r.stderr)
			}
		})
	}
}
