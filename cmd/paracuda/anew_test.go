// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/paracuda/paracuda/cmd/paracuda/process"
)

// TestBeginsAnew: a device process that was started with more than it needs has none of it, but for
// what the operator names, and with --sandbox off all of it. Its parent still knows it, and it
// still ends with that parent.
func TestBeginsAnew(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skipf("no setpriv to start it with: %v", err)
	}
	for options, want := range map[string][]string{
		"": nil, "--sandbox off": {"ANEW_NAMED=2", "ANEW_SECRET=1"},
		"--pass-env ANEW_NAMED": {"ANEW_NAMED=2"},
	} {
		t.Run(options, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "socket")
			// The shell is the parent: it says its child's number, and waits.
			parent := exec.Command("sh", "-c", `setpriv --pdeathsig KILL "$0" device --gpu soft `+
				`--keeper off --arbiter none --socket-path "$1" `+options+` & echo $!; wait`,
				process.Self(), socket)
			parent.Env = append(os.Environ(), "ANEW_SECRET=1", "ANEW_NAMED=2")
			parent.Stderr, parent.SysProcAttr = os.Stderr, endsWithTest()
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = parent.Process.Kill(); _ = parent.Wait() }()
			var pid int
			if _, err := fmt.Fscan(out, &pid); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
			within(t, "its socket", func() bool {
				_, err := os.Stat(socket)
				return err == nil
			})
			if has := oursOf(t, pid); !slices.Equal(has, want) {
				t.Errorf("it has %q, want %q", has, want)
			}
			_ = parent.Process.Kill()
			within(t, "it ends with its parent", func() bool {
				return syscall.Kill(pid, 0) != nil
			})
		})
	}
}

// oursOf are the variables of a process that this test has set, by their names.
func oursOf(t *testing.T, pid int) (has []string) {
	t.Helper()
	for _, v := range procFile(t, pid, "environ", "\x00") {
		if strings.HasPrefix(v, "ANEW_") {
			has = append(has, v)
		}
	}
	slices.Sort(has)
	return has
}
