// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCUPTI runs a client of the guest's libparacuda-cupti.so, which has the part of CUPTI that
// PyTorch's profiler uses.
func TestCUPTI(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		program := build(t, "tests/guests/activity.c", "-ldl")
		r := vm.run(t, vm.limit, "--", "env", "LD_PRELOAD=libparacuda-cupti.so", program)
		want := "started\nkernels\ncopies\nfills\ngraphs\na clock of the client's\nbuffers\nended\n"
		if r.exit != 0 || r.stdout != want || r.stderr != "" {
			t.Errorf("exit code %d, output %q, want %q:%s", r.exit, r.stdout, want, tail(r.stderr))
		}
	})
}

// TestSanitizer: compute-sanitizer's library crashes without NVIDIA's driver. Our library tells the
// user before that, and says nothing to other libraries.
func TestSanitizer(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		library := build(t, "tests/guests/sanitizer.c", "-shared", "-fPIC", "-ldl")
		text, err := os.ReadFile(library)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"libsanitizer-collection.so": sanitizerLine,
			"libother.so": `^$`} {
			file := filepath.Join(logDir(t), name)
			if err := os.WriteFile(file, text, 0o755); err != nil {
				t.Fatal(err)
			}
			r := vm.run(t, vm.limit, "--", "env", "LD_PRELOAD="+file, "true")
			if r.exit != 0 || r.stdout != "1 0\n" ||
				!regexp.MustCompile(want).MatchString(r.stderr) {
				t.Errorf("%s: exit code %d, output %q, want 0, %q, and standard error %s:%s", name,
					r.exit, r.stdout, "1 0\n", want, tail(r.stderr))
			}
		}
	})
}

const sanitizerLine = `^paracuda\[\d+\]: compute-sanitizer doesn't work in this VM, ` +
	`.* run it on the host\n$`

// TestProgramsWatched: programs compute the same while their calls are recorded, also while they
// capture.
func TestProgramsWatched(t *testing.T) {
	t.Parallel()
	records := regexp.MustCompile(`^[1-9]\d* records\n$`)
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		library := build(t, "tests/guests/watch.c", "-shared", "-fPIC", "-pthread")
		var jobs []job
		names := strings.Fields("copyplaces copies2d3d memsets graphs conditional streams " +
			"mallocasync defaultstream")
		for _, name := range names {
			preload := "LD_PRELOAD=libparacuda-cupti.so:" + library
			jobs = append(jobs,
				job{name, vm.limit, []string{"env", preload, filepath.Join(programs, name)}})
		}
		got := vm.batch(t, jobs)
		for _, name := range names {
			o := got[name]
			if want := string(read(t, "tests/programs/want/"+name+".out")); o.exit != 0 ||
				o.stdout != want {
				t.Errorf("%s: exit code %d:%s%s", name, o.exit, tail(o.stdout), tail(o.stderr))
			}
			if !records.MatchString(o.stderr) {
				t.Errorf("%s: standard error %q, want the number of records", name, o.stderr)
			}
		}
	})
}
