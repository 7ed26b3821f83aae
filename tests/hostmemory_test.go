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

// hogged matches what tests/guests/hog.c prints, which wants much of the host's memory. 0: an image
// was loaded. 2: out of memory, for larger images, and in the end for events and recursion.
var hogged = regexp.MustCompile(`^semicolons of \d{5,6} bytes: 0
more semicolons of \d{6} bytes: 2
instructions of \d{5,6} bytes: 2
thousands of events: 2
recursion: 2
$`)

// TestHostMemory runs a program that asks for much of the host's memory, and watches its worker's.
func TestHostMemory(t *testing.T) {
	t.Parallel()
	const limit, beside = 128 << 20, 300 << 20
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
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
			t.Errorf("exit code %d, want output like\n%s\n%s%s", r.exit, hogged, tail(r.stdout),
				tail(r.stderr))
		}
		if had == 0 || had > (limit+beside)>>10 {
			t.Errorf("a worker had %d KiB with host-memory=%d, want 1 to %d", had, limit,
				(limit+beside)>>10)
		}
		t.Logf("the worker had %d KiB at most", had)
	})
}

// watchWorkers returns the most private memory, in KiB, that a worker had before done was closed.
// The worker is a descendant of the process that has the argument, which is this test's only.
func watchWorkers(argument string, done <-chan struct{}) (most int) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var watch workerWatch
	for {
		select {
		case <-done:
			return most
		case <-tick.C:
			if watch.ancestor == 0 {
				watch.ancestor = processWith(argument)
				continue
			}
			kib, _ := watch.resident()
			most = max(most, kib)
		}
	}
}

// processWith is the oldest process that has an argument. 0: there is none.
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
