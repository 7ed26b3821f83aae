// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// frontEnd is a kind of virtual machine: User Mode Linux or QEMU.
type frontEnd struct {
	name  string
	boot  time.Duration // the most that its start and end may take together
	limit time.Duration // the most that one program may take
}

var frontEnds = []frontEnd{
	{"uml", time.Minute, 3 * time.Minute},
	{"qemu", 3 * time.Minute, 6 * time.Minute},
}

// boots is for tests that boot VMs: they run in parallel with others, and say when they are over.
func boots(t *testing.T) {
	t.Helper()
	notShort(t)
	t.Parallel()
	progress(t)
}

func notShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		skip(t, "-short: no VM is booted")
	}
}

// progress prints a line at the end of a test, since all tests together take minutes.
func progress(t *testing.T) {
	begin := time.Now()
	t.Cleanup(func() {
		how := "ok"
		if t.Failed() {
			how = "FAILED"
		} else if t.Skipped() {
			how = "skipped"
		}
		fmt.Printf("%-50s %7.1f s  %s\n", t.Name(), time.Since(begin).Seconds(), how)
	})
}

// wantedFrontEnds are the names of the front ends in PARACUDA_VM.
func wantedFrontEnds() []string { return strings.Split(setting("PARACUDA_VM", "uml,qemu"), ",") }

// inEach runs a test in each wanted front end, in parallel.
func inEach(t *testing.T, test func(t *testing.T, vm frontEnd)) {
	t.Helper()
	if testing.Short() {
		skip(t, "-short: no VM is booted")
	}
	for _, name := range wantedFrontEnds() {
		i := slices.IndexFunc(frontEnds, func(f frontEnd) bool { return f.name == name })
		if i < 0 {
			t.Fatalf("PARACUDA_VM: no front end is called %q", name)
		}
		t.Run(name, func(t *testing.T) {
			boots(t)
			test(t, frontEnds[i])
		})
	}
}

// mostBoots is how many VMs a batch gets if it loses them.
const mostBoots = 3

// batch runs the jobs one after another in one VM. If that VM is lost, it runs the rest in another
// one.
func (f frontEnd) batch(t *testing.T, jobs []job, options ...string) map[string]outcome {
	t.Helper()
	got := map[string]outcome{}
	for boot := 0; boot < mostBoots && len(jobs) > 0; boot++ {
		list := writeJobs(t, jobs)
		r := f.start(t, untilSilent(f.boot+f.limit),
			slices.Concat(options, []string{"--", runner, list})...)
		frames, err := parseFrames(strings.NewReader(r.stdout))
		if err != nil {
			t.Error(err)
		}
		if len(frames) == 0 || r.exit != 0 {
			t.Errorf("VM %d ended with exit code %d after %d of %d programs: %s",
				boot+1, r.exit, len(frames), len(jobs), tail(r.stderr))
		}
		if len(frames) == 0 {
			break
		}
		maps.Copy(got, frames)
		jobs = slices.DeleteFunc(slices.Clone(jobs), func(j job) bool {
			_, ran := got[j.id]
			return ran
		})
	}
	return got
}

// tail is the end of a text, for messages.
func tail(text string) string {
	const most = 3000
	if len(text) > most {
		text = "[...] " + text[len(text)-most:]
	}
	return fmt.Sprintf("\n%s", strings.TrimSpace(text))
}
