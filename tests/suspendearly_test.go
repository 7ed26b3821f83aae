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

	"github.com/paracuda/paracuda/gpubackend/device/admin"
)

// stoodStill matches what is printed when device memory was written while the programs ran: how
// much there is, how much of that wasn't in the file already, and how much was written when they
// had stopped.
var stoodStill = regexp.MustCompile(
	`^suspended to the file: (\d+) bytes of device memory(?: \((\d+) changed\))?, in \S+\n` +
		`the programs stood still for \S+, while (\d+) bytes were written\n$`)

// TestWrittenWhileProgramsRun suspends a VM to files, again and again, while a program computes:
// most of its memory is written before it stops. It goes on with what it had, and so it does when
// it stops first.
func TestWrittenWhileProgramsRun(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startPolicyRigOf(t, vm, filepath.Join(programs, "keeps"), "0")
		p.commands(t, 500) // all is allocated
		for range times(3, 20) {
			file := filepath.Join(t.TempDir(), "state")
			out := p.must(t, "suspend", "--to", file)
			m := stoodStill.FindStringSubmatch(out)
			if m == nil {
				t.Fatalf("suspend: %q", out)
			}
			all, _ := strconv.ParseUint(m[1], 10, 64)
			late, _ := strconv.ParseUint(m[3], 10, 64)
			if late > all/2 || m[2] != "" {
				t.Errorf("%d bytes of %d were written when the program had stopped", late, all)
			}
			p.must(t, "resume", "--from", file)
			p.commands(t, 300)
		}
		file := filepath.Join(t.TempDir(), "state")
		if out := p.must(t, "suspend", "--stop-first", "--to", file); stoodStill.MatchString(out) {
			t.Errorf("suspend --stop-first: %q", out)
		}
		p.must(t, "resume", "--from", file)
		p.commands(t, 300)
	})
}

// startComingAndGoing starts a VM in which a program computes all the time, and others so many
// rounds, one after the other.
func startComingAndGoing(t *testing.T, vm frontEnd, rounds int) *policyRig {
	t.Helper()
	return startPolicyRigOf(t, vm, "sh", "-c",
		`"$0" 0 & while kill -0 $!; do "$0" "$1" >/dev/null || exit 1; done`,
		filepath.Join(programs, "keeps"), strconv.Itoa(rounds))
}

// TestWrittenAgainWhileProgramsRun suspends a VM to the file from which it was resumed, again and
// again. A program computes, and another one, which isn't in the file yet, is written while it
// runs: when the programs have stopped, less than half of what the file lacked is written.
func TestWrittenAgainWhileProgramsRun(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startComingAndGoing(t, vm, 300)
		file := filepath.Join(t.TempDir(), "state")
		p.commands(t, 500)
		p.must(t, "suspend", "--to", file)
		early, rounds := 0, times(3, 20)
		for range 40 * rounds { // the more load, the more is left when they stop
			known := map[int32]bool{}
			p.must(t, "resume", "--from", file)
			for _, x := range p.answer(t).Programs {
				known[x.PID] = true
			}
			until(t, p.limit, "another program computes", func() bool {
				return slices.ContainsFunc(p.answer(t).Programs, func(x admin.Program) bool {
					return !known[x.PID] && x.Stats["commands"] > 500
				})
			})
			out := p.must(t, "suspend", "--to", file)
			m := stoodStill.FindStringSubmatch(out)
			if m == nil || m[2] == "" { // it was written anew, or a program begins just now
				continue
			}
			lacked, _ := strconv.ParseUint(m[2], 10, 64)
			late, _ := strconv.ParseUint(m[3], 10, 64)
			if late < lacked/2 { // the other one may have ended meanwhile
				early++
			}
			if early == rounds {
				break
			}
		}
		if early < rounds {
			t.Errorf("little was written when the programs had stopped %d times, want %d", early,
				rounds)
		}
		p.must(t, "resume", "--from", file)
		p.commands(t, 300)
	})
}

// TestProgramsEndWhileTheyAreWritten suspends a VM to files, in which programs begin and end all
// the time, and one computes, which goes on.
func TestProgramsEndWhileTheyAreWritten(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startComingAndGoing(t, vm, 100)
		p.commands(t, 500)
		for range times(6, 50) {
			file := filepath.Join(t.TempDir(), "state")
			p.must(t, "suspend", "--to", file)
			p.must(t, "resume", "--from", file)
			p.commands(t, 300)
		}
	})
}

// TestSuspendedToAFullDisk suspends a VM to a disk that is too small: the command says so, leaves
// nothing there, and the program runs on.
func TestSuspendedToAFullDisk(t *testing.T) {
	t.Parallel()
	if r := command(t, time.Minute, root, "unshare", "-m", "true"); r.exit != 0 {
		skip(t, "no mounts of its own for a process here: %s", r.stderr)
	}
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startPolicyRigOf(t, vm, filepath.Join(programs, "keeps"), "0")
		p.commands(t, 500)
		for _, size := range []string{"1M", "8M", "30M"} {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "full"), 0o755); err != nil {
				t.Fatal(err)
			}
			r := command(t, time.Minute, dir, "unshare", "-m", "sh", "-c",
				"mount -t tmpfs -o size="+size+" full full && "+
					`"$0" suspend --to full/state "$1"; ls -A full; `+
					"df --output=used full | tail -1", paracuda, p.socket)
			if !strings.Contains(r.stderr, "no space left") || strings.TrimSpace(r.stdout) != "0" {
				t.Errorf("%s: %q is left, errors %q", size, r.stdout, r.stderr)
			}
			p.commands(t, p.commands(t, 1)["commands"]+300)
		}
		p.fullAgain(t)
	})
}

// fullAgain suspends a VM again to the file from which it was resumed, on a disk that is full: the
// command says so, and the file is what it was. With room the VM can be suspended to it.
func (p *policyRig) fullAgain(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := command(t, 2*time.Minute, dir, "unshare", "-m", "sh", "-ec", `
		mount -t tmpfs -o size=100M full full
		"$0" suspend --stop-first --to full/state "$1"
		"$0" resume --from full/state "$1"
		cat /dev/zero >full/zero 2>/dev/null || :
		cp full/state was
		! "$0" suspend --to full/state "$1" || exit 1
		cmp full/state was
		rm full/zero
		"$0" suspend --to full/state "$1"
		"$0" resume --from full/state "$1"`, paracuda, p.socket)
	if r.exit != 0 || !strings.Contains(r.stderr, "no space left") ||
		!strings.Contains(r.stdout, "changed)") {
		t.Errorf("exit code %d: %q, errors %q", r.exit, r.stdout, r.stderr)
	}
	p.commands(t, 300)
}
