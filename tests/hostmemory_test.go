// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"regexp"
	"strconv"
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
	const limit, beside = 128 << 20, 300 << 20
	inEach(t, func(t *testing.T, vm frontEnd) {
		if setting("PARACUDA_GPU", "soft") != "soft" {
			skip(t, "what NVIDIA's driver makes of such images is not known")
		}
		program := build(t, "tests/guests/hog.c", "-ldl")
		done, most := make(chan struct{}), make(chan int)
		go func() { most <- watchWorkers(done) }()
		r := vm.run(t, 4*vm.limit, "--set", "host-memory="+strconv.Itoa(limit), "--", program)
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

// watchWorkers is the most memory of its own, in KiB, that a worker below this process has until
// done is closed.
func watchWorkers(done <-chan struct{}) (most int) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return most
		case <-tick.C:
			kib, _ := workerResident(os.Getpid())
			most = max(most, kib)
		}
	}
}
