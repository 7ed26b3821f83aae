// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// ownLines matches lines of watched.py. They may come in the middle of a line of Python's, which
// writes its lines in pieces.
var ownLines = regexp.MustCompile(
	`(watched: |process \d+: |  thread \d+ |    (no )?system call ).*\n`)

// TestWatchedProgram: a program that takes too long says where it is, and goes on. On a busy host
// it may get there only after that time: then it is given more.
func TestWatchedProgram(t *testing.T) {
	t.Parallel()
	var said string
	for _, seconds := range []string{"2", "8", "32"} {
		var told bool
		if said, told = watchProgram(t, seconds); told {
			return
		}
		t.Logf("after %s s: %s", seconds, said)
	}
	t.Errorf("the program doesn't say where it is: %s", said)
}

// watchProgram runs a program that waits, and lets it go on when it has said where it is, or
// doesn't for a while.
func watchProgram(t *testing.T, seconds string) (text string, told bool) {
	t.Helper()
	const program = `import sys
sys.path.insert(0, "frameworks")
import sections
for line in sys.stdin:
    sys.exit(3)`
	file := filepath.Join(t.TempDir(), "err")
	stderr, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	// -B: `make lint` may look at the tree at the same time.
	run := exec.Command(python(t), "-B", "frameworks/watched.py", seconds, python(t), "-B", "-c",
		program)
	run.Stderr = stderr
	stdin, err := run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	said := func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	until(t, time.Minute, "the time is over", func() bool {
		return strings.Contains(said(), "hasn't ended after "+seconds+" s")
	})
	for w := patienceOf(10 * time.Second); !told && !w.over(); time.Sleep(20 * time.Millisecond) {
		said := said()
		told = strings.Contains(said, "    system call 0, at libc") &&
			strings.Contains(ownLines.ReplaceAllString(said, ""), "line 4 in <module>")
	}
	if _, err := stdin.Write([]byte("go on\n")); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := run.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("watched.py: %v, want the program's exit code, 3: %s", err, said())
	}
	return said(), told
}
