// SPDX-License-Identifier: Apache-2.0

// Package nvmltest is an NVML for tests, written in C (testdata/fakenvml.c). It has two GPUs: the
// first one with links and processes, the second one without any. It is built with cc.
package nvmltest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The UUIDs of its GPUs.
const (
	First  = "GPU-01020304-0506-0708-090a-0b0c0d0e0f10"
	Second = "GPU-ffffffff-0000-0000-0000-000000000001"
)

//go:embed testdata/fakenvml.c
var source []byte

// Build builds the library, and returns its path.
func Build(t *testing.T) (path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "libnvidia-ml.so.1")
	in := filepath.Join(dir, "fakenvml.c")
	if err := os.WriteFile(in, source, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("cc", "-shared", "-fPIC", "-o", path, in).CombinedOutput()
	if err != nil {
		t.Fatalf("cc: %v: %s", err, out)
	}
	return path
}
