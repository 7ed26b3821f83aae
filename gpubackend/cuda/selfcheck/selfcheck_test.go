// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cuda"
)

// TestRunOnFake runs every check against the driver library that the tests of package cuda use.
func TestRunOnFake(t *testing.T) {
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Fatalf("the fake driver library needs a C compiler: %v", err)
	}
	library := filepath.Join(t.TempDir(), cuda.DefaultLibrary)
	build := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-o", library, "../testdata/fakecuda.c", "-lpthread")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the fake: %v\n%s", err, out)
	}
	t.Setenv("CUDA_MODULE_LOADING", "")
	var text strings.Builder
	err = Run(&text, Config{Options: cuda.Options{Library: library}, Bytes: 8 << 20})
	t.Logf("\n%s", text.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, set := os.LookupEnv("CUDA_INJECTION64_PATH"); set {
		t.Error("a guest's CUDA_INJECTION64_PATH reached the driver")
	}
}
