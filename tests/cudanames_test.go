// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// bare matches numbers of CUDA's that stand in sources without their names: results that are
// returned, expected or assigned, attributes, and the greatest size of all parameters.
var bare = []*regexp.Regexp{
	regexp.MustCompile(`\b32764\b`),
	regexp.MustCompile(`\bResult\(([1-9]\d{0,2})\)`),
	regexp.MustCompile(`\bResult(: |\s+=\s+|\s*[!=]=\s*)[1-9]\d*\b`),
	regexp.MustCompile(`CHECK_IS\([1-9]\d*, cu[A-Z]`),
	regexp.MustCompile(`CHECK_IS\(\w+, cu(Pointer|Func|Device)\w+Attribute\([^,]+, \d{1,2},`),
	regexp.MustCompile(`\bCUresult \w+ = [1-9]`),
	regexp.MustCompile(`(NOT_READY|NO_DEVICE|NOT_SUPPORTED|INVALID_\w+)\s*=?\s+\d{3}\b`),
}

// returned matches C that returns a result as a number.
var returned = regexp.MustCompile(`\breturn [1-9]\d{2};`)

// TestNumbersHaveNames: sources use the names that are generated for CUDA's numbers, in tests and
// fakes, too. Programs of the guest use CUDA's own header.
func TestNumbersHaveNames(t *testing.T) {
	files := sources(t, "*.go", "guestdriver/*.c", "guestdriver/*.h", "gpubackend/*.c",
		"gpubackend/*.h")
	fakes, err := filepath.Glob(filepath.Join(root, "gpubackend/cuda/drivertest/testdata/*"))
	if err != nil || len(fakes) < 5 || len(files) < 1000 {
		t.Fatalf("found %d files and %d of the fake driver: %v", len(files), len(fakes), err)
	}
	for _, fake := range fakes {
		files = append(files, strings.TrimPrefix(fake, root+"/"))
	}
	for _, file := range files {
		text := string(read(t, file))
		if file == "tests/cudanames_test.go" || strings.Contains(file, "/internal/gen/") {
			continue
		}
		for _, line := range bareLines(text) {
			t.Errorf("%s: %s: use the name (cudaabi, zz_generated_cuda_values.h)", file, line)
		}
	}
}

// bareLines are the lines of a source with numbers that should be names.
func bareLines(text string) (found []string) {
	inC := strings.Contains(text, "CUresult")
	for line := range strings.Lines(text) {
		if slices.ContainsFunc(bare, func(r *regexp.Regexp) bool { return r.MatchString(line) }) ||
			inC && returned.MatchString(line) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func TestBareLines(t *testing.T) {
	for text, want := range map[string]bool{
		"{GPU: 0, Result: 214}":                                true,
		"Result: cudaabi.ErrorUnknown,":                        false,
		"want := gpubackend.Result(700)":                       true,
		"gpubackend.Result(s.Result)":                          false,
		"CUresult f(void)\n{\n\treturn 801;\n}":                true,
		"int f(void)\n{\n\treturn 801;\n}":                     false,
		"CHECK_IS(700, cuCtxSynchronize());":                   true,
		"CHECK_IS(0, cuCtxSynchronize());":                     false,
		"CHECK_IS(0, cuPointerGetAttribute(&pool, 17, same));": true,
		"#define DRIVER_NOT_READY 600":                         true,
		"enum { NO_DEVICE = 100 };":                            true,
		"if n > 32764 {":                                       true,
		"wait 32764000 ns":                                     false,
	} {
		if got := len(bareLines(text)) > 0; got != want {
			t.Errorf("%q has a bare number: %v, want %v", text, got, want)
		}
	}
}
