// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// outcome is how one program of a batch ended.
type outcome struct {
	lost           bool // The VM ended while it ran.
	exit           int
	took           time.Duration
	stdout, stderr string
}

// parseFrames reads what the runner printed.
func parseFrames(r io.Reader) (map[string]outcome, error) {
	frames := frameReader{bufio.NewReader(r)}
	got := map[string]outcome{}
	for {
		id, o, err := frames.next()
		switch {
		case err == io.EOF:
			return got, nil
		case err != nil:
			return got, err
		}
		got[id] = o
	}
}

// frameReader reads what the runner prints. It skips lines between frames, which are the VM's.
type frameReader struct{ in *bufio.Reader }

// next returns that a program has begun, or how one has ended. A program that has begun counts as
// lost until its end comes.
func (r frameReader) next() (id string, o outcome, err error) {
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			return "", o, err
		}
		if n, _ := fmt.Sscanf(line, "@run %s", &id); n == 1 {
			return id, outcome{lost: true}, nil
		}
		var exit, ms, out, errs int
		if n, _ := fmt.Sscanf(line, "@end %s %d %d %d %d", &id, &exit, &ms, &out, &errs); n != 5 {
			continue
		}
		text := make([]byte, out+errs)
		if _, err := io.ReadFull(r.in, text); err != nil {
			return "", o, fmt.Errorf("read the output of %s: %w", id, err)
		}
		return id, outcome{exit: exit, took: time.Duration(ms) * time.Millisecond,
			stdout: string(text[:out]), stderr: string(text[out:])}, nil
	}
}

// job is one line of the runner's list.
type job struct {
	id    string
	limit time.Duration
	args  []string
}

// writeJobs writes a list for the runner, where guests see it.
func writeJobs(t testing.TB, jobs []job) string {
	t.Helper()
	var text strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&text, "%s %.0f %s\n", j.id, j.limit.Seconds(), strings.Join(j.args, " "))
	}
	file := filepath.Join(logDir(t), "jobs")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRunner(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	text := "#!/bin/sh\nprintf '@end me 1 2 3 4\\nno line end'\necho wrong >&2\nexit $1\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	list := writeJobs(t, []job{
		{"seven", time.Minute, []string{script, "7"}},
		{"silent", time.Minute, []string{"true"}},
		{"absent", time.Minute, []string{"/no/such/program"}},
		{"slow", time.Second, []string{"sleep", "30"}},
		{"last", time.Minute, []string{"echo", "two", "words"}},
	})
	ctx, cancel := withPatience(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "runner/runner", list).Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseFrames(strings.NewReader(string(out) + "@run cut\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		id   string
		want outcome
	}{
		{"seven", outcome{exit: 7, stdout: "@end me 1 2 3 4\nno line end", stderr: "wrong\n"}},
		{"silent", outcome{}},
		{"last", outcome{stdout: "two words\n"}},
		{"cut", outcome{lost: true}},
	} {
		o := got[want.id]
		o.took = 0
		if o != want.want {
			t.Errorf("%s: got %+v, want %+v", want.id, o, want.want)
		}
	}
	if o := got["absent"]; o.exit != 127 {
		t.Errorf("absent: exit code %d, want 127", o.exit)
	}
	if o := got["slow"]; o.exit != 124 {
		t.Errorf("slow: exit code %d, want 124, as its limit is a second", o.exit)
	}
}
