// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// result is how a command ended.
type result struct {
	exit           int
	stdout, stderr string
}

// limit says when a command has to be ended.
type limit struct {
	after   time.Duration
	silence bool // since it printed something, not since it began
}

// within ends a command that takes too long.
func within(d time.Duration) limit { return limit{after: d} }

// untilSilent ends a command that prints nothing for too long. It is for many programs in turn: how
// long they take together depends on the machine.
func untilSilent(d time.Duration) limit { return limit{after: d, silence: true} }

func (l limit) String() string {
	if l.silence {
		return "nothing printed for " + l.after.String()
	}
	return "not finished after " + l.after.String()
}

// watched keeps what is written to it. With a limit on silence each write renews the patience.
type watched struct {
	text     bytes.Buffer // not embedded: its ReadFrom would be used instead of Write
	limit    limit
	patience *patience
}

func (w *watched) Write(p []byte) (int, error) {
	if w.limit.silence {
		w.patience.renew()
	}
	return w.text.Write(p)
}

// command runs a program on the host. After the limit it ends the program and all that it started.
func command(t testing.TB, most time.Duration, dir string, args ...string) result {
	t.Helper()
	return execute(t, within(most), dir, args...)
}

func execute(t testing.TB, l limit, dir string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout := watched{limit: l, patience: patienceOf(l.after)}
	go stdout.patience.end(ctx, cancel)
	var stderr bytes.Buffer
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
		t.Errorf("%s: %v", strings.Join(args, " "), l)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.text.String(), stderr.String()}
}

// run runs a program in a throw-away VM, within a limit that doesn't include booting. Options come
// before "--".
func (f frontEnd) run(t testing.TB, most time.Duration, args ...string) result {
	t.Helper()
	return f.start(t, within(f.boot+most), args...)
}

// slowVM is what paracuda run says where KVM doesn't work, as on some hosts that run the tests, and
// where the VM then takes minutes to boot, as it does beside many others.
var slowVM = regexp.MustCompile(`(?m)^(paracuda: KVM does not work here |` +
	`time=.* msg="?no driver in the guest has taken the device in ).*\n`)

// start runs a program in a throw-away VM.
func (f frontEnd) start(t testing.TB, l limit, args ...string) result {
	t.Helper()
	return f.startIn(t, l, root, args...)
}

// startIn runs a program in a throw-away VM, from a current directory.
func (f frontEnd) startIn(t testing.TB, l limit, dir string, args ...string) result {
	t.Helper()
	all := []string{paracuda, "run", "--vm", f.name, "--gpu", setting("PARACUDA_GPU", "soft")}
	r := execute(t, l, dir, append(all, args...)...)
	r.stderr = slowVM.ReplaceAllString(r.stderr, "")
	for name, text := range map[string]string{"stdout": r.stdout, "stderr": r.stderr} {
		if err := os.WriteFile(filepath.Join(logDir(t), name), []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
	return r
}

// recorder notes that a test would have failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestCommandsAreEnded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limit  limit
		script string
		failed bool
	}{
		{"in time", within(time.Minute), "echo a", false},
		{"too long", within(100 * time.Millisecond), "echo a; exec sleep 100", true},
		{"silent", untilSilent(100 * time.Millisecond), "exec sleep 100", true},
		{"silent at its end", untilSilent(100 * time.Millisecond), "echo a; exec sleep 100", true},
		{"long, but never silent", untilSilent(4 * time.Second),
			"for i in 1 2 3 4 5 6 7 8 9 10; do echo a; sleep 0.5; done", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{TB: t}
			if execute(r, tt.limit, ".", "sh", "-c", tt.script); r.failed != tt.failed {
				t.Errorf("failed: %t, want %t", r.failed, tt.failed)
			}
		})
	}
}
