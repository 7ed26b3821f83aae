// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// crowd is how many programs run at once, in a VM with fewer channels.
const crowd, fewChannels = 12, 4

// turnedAway matches the end of a program that found no free channel.
var turnedAway = regexp.MustCompile(`^[1-9]\d* .*channel`)

// TestChannels kills programs at many moments of their lives, and starts more at once than there
// are channels. Each works, or says in one line why not. In the end another program works.
func TestChannels(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		good, busy := filepath.Join(programs, follower), filepath.Join(programs, "pageable")
		var jobs []job
		for i := range crowd {
			limit := fmt.Sprintf("%.2f", 0.05*float64(i+1))
			jobs = append(jobs, job{"killed-" + strconv.Itoa(i), vm.limit,
				[]string{"timeout", "-s", "KILL", limit, busy}})
		}
		jobs = append(jobs,
			job{"crowd", vm.limit, []string{crowdScript, strconv.Itoa(crowd), good}},
			job{"last", vm.limit, []string{good}})
		got := vm.batch(t, jobs, "--set", fmt.Sprint("channels=", fewChannels))
		for id, o := range got {
			if strings.HasPrefix(id, "killed") && o.exit != 137 && o.exit != 0 {
				t.Errorf("%s: exit code %d:%s", id, o.exit, tail(o.stderr))
			}
		}
		checkCrowd(t, got["crowd"].stdout)
		wellFormed(t).check(t, got, "last")
	})
}

// checkCrowd checks how each program of a crowd ended.
func checkCrowd(t *testing.T, ends string) {
	lines := strings.Split(strings.TrimSuffix(ends, "\n"), "\n")
	if len(lines) != crowd {
		t.Errorf("%d lines, want one of each of %d programs:\n%s", len(lines), crowd, ends)
	}
	worked := 0
	for _, line := range lines {
		switch {
		case line == "0 ":
			worked++
		case !turnedAway.MatchString(line):
			t.Errorf("a program ended with %q, want \"0 \" or a line about channels", line)
		}
	}
	if worked < 2 {
		t.Errorf("%d of %d programs worked, want at least 2", worked, crowd)
	}
	t.Logf("%d of %d programs at once worked, with %d channels", worked, crowd, fewChannels)
}
