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

// TestWatchedProgram: a program that takes too long says where it is, and goes on.
func TestWatchedProgram(t *testing.T) {
	t.Parallel()
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
	run := exec.Command(python(t), "-B", "frameworks/watched.py", "2", python(t), "-B", "-c",
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
	until(t, time.Minute, "the program says where it is", func() bool {
		said := said()
		return strings.Contains(said, "hasn't ended after 2 s") &&
			strings.Contains(said, "    system call 0, at libc") &&
			strings.Contains(ownLines.ReplaceAllString(said, ""), "line 4 in <module>")
	})
	if _, err := stdin.Write([]byte("go on\n")); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := run.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("watched.py: %v, want the program's exit code, 3: %s", err, said())
	}
}
