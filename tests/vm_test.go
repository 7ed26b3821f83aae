// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// frontEnd is one of the virtual machines that Paracuda drives.
type frontEnd struct {
	name  string
	boot  time.Duration // in which it starts and ends at the latest
	limit time.Duration // for one program; a batch has four times as long
}

var frontEnds = []frontEnd{
	{"uml", 30 * time.Second, time.Minute},
	{"qemu", 90 * time.Second, 2 * time.Minute},
}

// boots is for tests that boot VMs: they run beside others, and say when they are over.
func boots(t *testing.T) {
	t.Helper()
	if testing.Short() {
		skip(t, "-short: no VM is booted")
	}
	t.Parallel()
	progress(t)
}

// progress prints a line at the end of a test, since all of them take minutes.
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

// inEach runs a test in every front end that is asked for, one beside the other.
func inEach(t *testing.T, test func(t *testing.T, vm frontEnd)) {
	t.Helper()
	if testing.Short() {
		skip(t, "-short: no VM is booted")
	}
	wanted := strings.Split(setting("PARACUDA_VM", "uml,qemu"), ",")
	for _, name := range wanted {
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

// result is how a command ended.
type result struct {
	exit           int
	stdout, stderr string
}

// command runs a program on the host, with all that it starts, within a limit.
func command(t testing.TB, limit time.Duration, dir string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		t.Fatalf("run %s: %v", args[0], err)
	}
	if ctx.Err() != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		t.Errorf("%s: not finished after %v", strings.Join(args, " "), limit)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// run runs a program in a throw-away VM. Options come before "--".
func (f frontEnd) run(t testing.TB, limit time.Duration, args ...string) result {
	t.Helper()
	all := []string{paracuda, "run", "--vm", f.name, "--gpu", setting("PARACUDA_GPU", "soft")}
	r := command(t, f.boot+limit, root, append(all, args...)...)
	for name, text := range map[string]string{"stdout": r.stdout, "stderr": r.stderr} {
		if err := os.WriteFile(filepath.Join(logDir(t), name), []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
	return r
}

// mostBoots is how many VMs a batch has, one after the other, if it loses them.
const mostBoots = 3

// batch runs the jobs one after another in one VM, and what remains in another
// when that VM is lost.
func (f frontEnd) batch(t *testing.T, jobs []job, options ...string) map[string]outcome {
	t.Helper()
	got := map[string]outcome{}
	for boot := 0; boot < mostBoots && len(jobs) > 0; boot++ {
		list := writeJobs(t, jobs)
		r := f.run(t, 4*f.limit,
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
