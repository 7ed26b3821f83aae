// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeCompiler stands for nvcc: each file that it is to write is an empty program. What it is to
// read from standard input is its answer.
const fakeCompiler = `#!/bin/bash
[ "${!#}" != - ] || cat
while [ $# -gt 0 ]; do
	if [ "$1" = -o ]; then
		echo '#!/bin/sh' >"$2"
		chmod +x "$2"
	fi
	shift
done
`

// TestChangedProgramsAreBuilt: a test program is built again when it has changed, a header that it
// includes, even by another one, or the options in its line. Others aren't.
func TestChangedProgramsAreBuilt(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("programs/build")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"build": string(script), "nvcc": fakeCompiler,
		"programs.txt": "one x -\ntwo x -\nthree x -\n",
		"one.cu":       "#include <cstdio>\n#include \"outer.h\"\n",
		"two.cu":       "#include \"inner.h\"\n", "three.cu": "",
		"outer.h": "#include \"inner.h\"\n", "inner.h": "", "other.h": "",
	} {
		write(name, text)
	}
	build := func() []string {
		t.Helper()
		cmd := exec.Command(filepath.Join(dir, "build"), filepath.Join(dir, "out"))
		cmd.Env = append(os.Environ(), "NVCC="+filepath.Join(dir, "nvcc"), "KEPT=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		built := strings.Fields(strings.ReplaceAll(string(out), "built ", ""))
		slices.Sort(built)
		return built
	}
	for _, c := range []struct {
		what, file, text string
		want             []string
	}{
		{"nothing is built yet", "other.h", "", []string{"one", "three", "two"}},
		{"nothing has changed", "other.h", "", nil},
		{"a header that nobody includes", "other.h", "// other\n", nil},
		{"a source", "three.cu", "// other\n", []string{"three"}},
		{"a header", "outer.h", "#include \"inner.h\"\n// other\n", []string{"one"}},
		{"a header of a header", "inner.h", "// other\n", []string{"one", "two"}},
		{"an option", "programs.txt", "one x -\ntwo x lambda\nthree x -\n", []string{"two"}},
	} {
		write(c.file, c.text)
		if built := build(); !slices.Equal(built, c.want) {
			t.Errorf("%s: %q are built, want %q", c.what, built, c.want)
		}
	}
}
