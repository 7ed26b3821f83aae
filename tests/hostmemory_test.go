// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hogged is what a guest's program that wants much of the host's memory is to print: which images
// are loaded, and which are too large (2), as are events and registers in the end.
var hogged = regexp.MustCompile(`^semicolons of \d{5,6} bytes: 0
more semicolons of \d{6} bytes: 2
instructions of \d{5,6} bytes: 2
thousands of events: 2
recursion: 2
$`)

// TestHostMemory has a program ask for much of the host's memory, and looks at what its worker has.
func TestHostMemory(t *testing.T) {
	t.Parallel()
	const limit, beside = 128 << 20, 300 << 20
	inEach(t, func(t *testing.T, vm frontEnd) {
		if setting("PARACUDA_GPU", "soft") != "soft" {
			skip(t, "what NVIDIA's driver makes of such images is not known")
		}
		program := build(t, "tests/guests/hog.c", "-ldl")
		done, most := make(chan struct{}), make(chan int)
		stats := filepath.Join(logDir(t), "stats.json")
		go func() { most <- watchWorkers(stats, done) }()
		r := vm.run(t, 4*vm.limit, "--stats", stats, "--set", "host-memory="+strconv.Itoa(limit),
			"--", program)
		close(done)
		had := <-most
		if r.exit != 0 || !hogged.MatchString(r.stdout) {
			t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
		}
		if had == 0 || had > (limit+beside)>>10 {
			t.Errorf("a worker had %d KiB, with host-memory=%d", had, limit)
		}
		t.Logf("%d KiB at most", had)
	})
}

// watchWorkers is the most memory of its own, in KiB, that a worker has until done is closed. The
// worker is below the process that has the given argument, as none but this test's has.
func watchWorkers(argument string, done <-chan struct{}) (most int) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	vm := 0
	for {
		select {
		case <-done:
			return most
		case <-tick.C:
			if vm == 0 {
				vm = processWith(argument)
				continue
			}
			kib, _ := workerResident(vm)
			most = max(most, kib)
		}
	}
}

// processWith is the oldest process that has an argument; 0: none has.
func processWith(argument string) (oldest int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		text, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(text), "\x00"), argument) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && (oldest == 0 || pid < oldest) {
			oldest = pid
		}
	}
	return oldest
}
