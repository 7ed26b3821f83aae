// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// stoodStill matches what is printed when device memory was written while the programs ran: how
// much there is, and how much was written when they had stopped.
var stoodStill = regexp.MustCompile(
	`^suspended to the file: (\d+) bytes of device memory, in \S+\n` +
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
			late, _ := strconv.ParseUint(m[2], 10, 64)
			if late > all/2 {
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

// TestProgramsEndWhileTheyAreWritten suspends a VM to files, in which programs begin and end all
// the time, and one computes, which goes on.
func TestProgramsEndWhileTheyAreWritten(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startPolicyRigOf(t, vm, "sh", "-c",
			`"$0" 0 & while kill -0 $!; do "$0" 100 >/dev/null || exit 1; done`,
			filepath.Join(programs, "keeps"))
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
	})
}
