// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// implemented lists the functions of docs/coverage.md that don't return 801.
func implemented(t *testing.T) []string {
	t.Helper()
	var names []string
	row := regexp.MustCompile(`(?m)^\| (cu\w+) \| (.*) \|$`)
	for _, r := range row.FindAllStringSubmatch(string(read(t, "docs/coverage.md")), -1) {
		if r[2] != "801" {
			names = append(names, r[1])
		}
	}
	if len(names) < 300 {
		t.Fatalf("docs/coverage.md: found %d implemented functions, want at least 300", len(names))
	}
	return names
}

// lines returns a file's lines, without comments and empty ones.
func lines(t *testing.T, file string) []string {
	t.Helper()
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(read(t, file))), "\n"),
		func(line string) bool {
			return line == "" || strings.HasPrefix(line, "#")
		})
}

var version = regexp.MustCompile(`_v\d$`)

// TestUsedFunctionsAreImplemented: all functions that common programs call are implemented.
func TestUsedFunctionsAreImplemented(t *testing.T) {
	there := map[string]bool{}
	for _, name := range implemented(t) {
		there[version.ReplaceAllString(name, "")] = true
	}
	used := lines(t, "gpubackend/api/used.txt")
	if len(used) < 70 {
		t.Errorf("gpubackend/api/used.txt: %d functions, want at least 70", len(used))
	}
	for _, name := range used {
		if !there[name] {
			t.Errorf("%s is used by programs, but isn't implemented", name)
		}
	}
}

// TestEveryFunctionIsDescribed: docs/coverage.md has all functions of CUDA 13.0 but those for
// graphics, whether they are implemented or not.
func TestEveryFunctionIsDescribed(t *testing.T) {
	coverage := string(read(t, "docs/coverage.md"))
	graphics := regexp.MustCompile(`^cu(GL|EGL|VDPAU|` +
		`Graphics(EGL|GL|VDPAU|ResourceGetMappedEgl)|ProfilerInitialize)`)
	count := 0
	for _, line := range lines(t, "gpubackend/api/versions.tsv") {
		fields := strings.Split(line, "\t")
		if graphics.MatchString(fields[0]) {
			continue
		}
		count++
		symbols := strings.Fields(fields[1])
		_, newest, _ := strings.Cut(symbols[len(symbols)-1], "=")
		if !strings.Contains(coverage, "| "+newest+" |") {
			t.Errorf("%s is not in docs/coverage.md", newest)
		}
	}
	if count != 449 {
		t.Errorf("%d functions, want the 449 of CUDA 13.0", count)
	}
}

// buildCounted builds a library that notes which of its functions are called from outside.
func buildCounted(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.Command("make", "-s", "-C", filepath.Join(root, "guestdriver/libcuda"),
		"LIB="+dir, "OBJ="+dir+"/obj",
		"CFLAGS=-O0 -finstrument-functions", "EXTRA=test/calls.c").CombinedOutput()
	if err != nil {
		t.Fatalf("build the library: %v\n%s", err, out)
	}
}

// exported returns the functions that a library exports, by their offset in it.
func exported(t *testing.T, file string) map[uint64]string {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	at := map[uint64]string{}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			at[s.Value] = s.Name
		}
	}
	return at
}

// namedIn finds the functions in the sources of those programs that need a real GPU or two GPUs,
// and so don't run here.
func namedIn(t *testing.T, all []program) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, p := range all {
		if !p.has("gpu") && !p.has("two") {
			continue
		}
		for _, name := range regexp.MustCompile(`\bcu[A-Z]\w*`).FindAllString(string(read(t,
			"tests/programs/"+p.file+".cu")), -1) {
			found[name] = true
		}
	}
	return found
}

// longRunning are programs that take long, and call no function that no other one calls.
var longRunning = []string{"underfire", "copyplaces", "refused", "copysizes", "processes",
	"manyregistered", "delayed", "sorts", "backpressure", "isolation", "swapped", "sharedpools",
	"graphhosts", "blockedthread", "shareable", "environment", "manypinned", "pageable",
	"ipcevents", "defaultstream", "abortmidcopy", "keepsgraphs", "ipc", "settled"}

// TestEveryFunctionIsCalled runs nearly all programs on a library that notes what they, and the
// CUDA runtimes in them, call: each function that is implemented must be called.
func TestEveryFunctionIsCalled(t *testing.T) {
	if testing.Short() || !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "uml") {
		skip(t, "no User Mode Linux is booted: PARACUDA_VM or -short says so")
	}
	boots(t)
	vm, dir := frontEnds[0], filepath.Join(root, "build/guest/calls")
	buildCounted(t, dir)
	run := func(id string, args ...string) job {
		return job{id, vm.limit, append([]string{"env", "LD_LIBRARY_PATH=" + dir}, args...)}
	}
	all := readPrograms(t)
	var jobs []job
	for _, p := range all {
		if !p.has("gpu") && !p.has("two") && !p.has("shared") && !p.has("bits") &&
			!slices.Contains(longRunning, p.file) {
			jobs = append(jobs,
				run(p.id(), append([]string{filepath.Join(programs, p.file)}, p.args...)...))
		}
	}
	got := vm.batch(t, append(jobs, job{"calls", vm.limit, []string{"cat", "/tmp/paracuda-calls"}}))
	notes := got["calls"].stdout
	called := map[string]bool{}
	for at, name := range exported(t, filepath.Join(dir, "libcuda.so.1")) {
		if at < uint64(len(notes)) && notes[at] != 0 {
			called[strings.TrimSuffix(strings.TrimSuffix(name, "_ptsz"), "_ptds")] = true
		}
	}
	elsewhere := namedIn(t, all)
	for _, name := range implemented(t) {
		if !called[name] && !elsewhere[name] && !elsewhere[version.ReplaceAllString(name, "")] {
			t.Errorf("%s is implemented, but no program calls it", name)
		}
	}
	t.Logf("%d functions called", len(called))
}
